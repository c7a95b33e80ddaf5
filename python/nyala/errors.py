"""The one error of this package."""

from __future__ import annotations


class Error(Exception):
    """What went wrong, and what to do about it.

    `code` is stable and made for programs. Those of the server are in `docs/guide/http.md`, and `status` is then the status of HTTP.
    This package has these of its own:

    | code | |
    |---|---|
    | `already_read` | a result that is read once was read again |
    | `broken_off` | the connection ended in the middle of an answer |
    | `changes_ended` | the server gives no more changes of a table: it was dropped, or they are no longer kept |
    | `invalid_answer` | what answered is not a Nyala server, or one of another time |
    | `job_failed`, `job_cancelled` | how a job ended that somebody waited for |
    | `missing_package` | an optional package is not installed |
    | `no_answer` | the server was silent for longer than the timeout |
    | `no_binary` | there is no program `nyala` to start |
    | `not_running` | the server of a `nyala.Server` does not run |
    | `out_of_range` | a value of the result does not fit into Python's type |
    | `start_failed` | a server did not start; the message has the end of its log |
    | `unreachable` | no connection could be made |
    """

    def __init__(self, code: str, message: str, hint: str | None = None, *, status: int | None = None) -> None:
        super().__init__(code, message, hint)
        self.code = code
        self.message = message
        self.hint = hint
        self.status = status

    def __str__(self) -> str:
        text = f"{self.message} [{self.code}]"
        return f"{text}\nhint: {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions are pickled with their positional arguments alone, which would lose the status between processes.
        return (_restore, (self.code, self.message, self.hint, self.status))


def _restore(code: str, message: str, hint: str | None, status: int | None) -> Error:
    return Error(code, message, hint, status=status)
