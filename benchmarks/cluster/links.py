"""The ways between nodes, which can be cut or made slow: each node is reached through a relay on this machine."""

import socket
import threading
import time

PIECE = 1 << 16


class Link:
    """A relay to a port. Cut, it keeps its connections and passes nothing on, as a switch does that drops all packets."""

    def __init__(self, listen: int, target: int):
        self.target = target
        self.passes = threading.Event()
        self.passes.set()
        self.bytes_per_second: int | None = None
        self.passed = 0
        self.server = socket.create_server(("127.0.0.1", listen))
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self.passes.clear()

    def heal(self) -> None:
        self.bytes_per_second = None
        self.passes.set()

    def slow_down(self, bytes_per_second: int) -> None:
        self.bytes_per_second = bytes_per_second

    def close(self) -> None:
        self.server.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self.server.accept()
            except OSError:
                return
            threading.Thread(target=self._connect, args=(client,), daemon=True).start()

    def _connect(self, client: socket.socket) -> None:
        self.passes.wait()
        try:
            there = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            client.close()
            return
        for one, other in ((client, there), (there, client)):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._relay, args=(one, other), daemon=True).start()

    def _relay(self, source: socket.socket, sink: socket.socket) -> None:
        try:
            while piece := source.recv(PIECE):
                self.passes.wait()
                if self.bytes_per_second:
                    time.sleep(len(piece) / self.bytes_per_second)
                sink.sendall(piece)
                self.passed += len(piece)
        except OSError:
            pass
        finally:
            for end in (source, sink):
                try:
                    end.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
