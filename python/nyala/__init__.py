"""Nyala from Python: start servers, ask them, load rows, follow changes, and look after cubes.

The guide is `docs/guide/python.md`. Only the standard library is needed; with pyarrow results and frames go as Arrow.
"""

from .changes import Change
from .connection import Connection, connect
from .cubes import Cube, CubeStatus, Cuboid, CuboidUse, Finding, Recommendation, Segment
from .errors import Error
from .jobs import Job, JobStatus
from .loads import LoadResult, Reject
from .names import quote_name
from .result import Column, Result
from .server import Server

__all__ = [
    "Change",
    "Column",
    "Connection",
    "Cube",
    "CubeStatus",
    "Cuboid",
    "CuboidUse",
    "Error",
    "Finding",
    "Job",
    "JobStatus",
    "LoadResult",
    "Recommendation",
    "Reject",
    "Result",
    "Segment",
    "Server",
    "connect",
    "quote_name",
]
