"""PostgreSQL's own client library by ctypes: what a runner needs of it and no more.

psql would do for statements, but not for what this runner asks of each: the fields of an error
(SQLSTATE, detail, hint) and the notices, in their order, with texts of any shape.

    c = Connection("host=... user=postgres dbname=postgres", library)
    rows, notices = c.query("SELECT $1::text", ["x"])      # rows of text or None

An error of the server is SqlError, whose `fields` hold sqlstate, message, detail, hint.  A connection
belongs to one thread at a time; other threads run on while it waits.
"""
import ctypes
import ctypes.util

COMMAND_OK, TUPLES_OK = 1, 2
FIELDS = {"sqlstate": "C", "message": "M", "detail": "D", "hint": "H"}
RECEIVER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


class SqlError(Exception):
    def __init__(self, fields):
        super().__init__("%(sqlstate)s: %(message)s" % fields + "".join("\n%s: %s" % (k, fields[k]) for k in ("detail", "hint") if fields[k]))
        self.fields = fields
        self.notices = []


def load(folder=None):
    """libpq of the server that is tested, else the system's."""
    for name in (folder and folder + "/libpq.so.5", "libpq.so.5", ctypes.util.find_library("pq")):
        try:
            pq = ctypes.CDLL(name) if name else None
        except OSError:
            continue
        if pq:
            break
    else:
        raise SystemExit("there is no libpq.so.5 to speak to the server with")
    for function, result in (("PQconnectdb", "P"), ("PQstatus", "i"), ("PQerrorMessage", "s"), ("PQexecParams", "P"), ("PQexec", "P"),
                             ("PQresultStatus", "i"), ("PQresultErrorField", "s"), ("PQntuples", "i"), ("PQnfields", "i"),
                             ("PQgetvalue", "s"), ("PQgetisnull", "i"), ("PQclear", ""), ("PQfinish", ""), ("PQsetNoticeReceiver", "P")):
        getattr(pq, function).restype = {"P": ctypes.c_void_p, "i": ctypes.c_int, "s": ctypes.c_char_p, "": None}[result]
    return pq


class Connection:
    def __init__(self, conninfo, pq):
        self.pq, self.notices = pq, []
        self.handle = ctypes.c_void_p(pq.PQconnectdb(conninfo.encode()))
        if pq.PQstatus(self.handle) != 0:
            raise RuntimeError(pq.PQerrorMessage(self.handle).decode().strip())
        self.receiver = RECEIVER(lambda _, result: self.notices.append(self.fields(result)["message"]))
        pq.PQsetNoticeReceiver(self.handle, self.receiver, None)

    def fields(self, result):
        out = {}
        for key, code in FIELDS.items():
            text = self.pq.PQresultErrorField(ctypes.c_void_p(result), ctypes.c_int(ord(code)))
            out[key] = None if text is None else text.decode()
        return out

    def query(self, sql, params=None):
        """Rows and notices of one statement; several statements where there are no parameters (one transaction)."""
        pq, self.notices = self.pq, []
        if params is None:
            result = pq.PQexec(self.handle, sql.encode())
        else:
            values = (ctypes.c_char_p * len(params))(*[None if p is None else str(p).encode() for p in params])
            result = pq.PQexecParams(self.handle, sql.encode(), len(params), None, values, None, None, 0)
        held = ctypes.c_void_p(result)
        try:
            if pq.PQresultStatus(held) not in (COMMAND_OK, TUPLES_OK):
                fields = self.fields(result)
                if fields["message"] is None:
                    raise RuntimeError("the connection was lost: " + pq.PQerrorMessage(self.handle).decode().strip())
                error = SqlError(fields)
                error.notices = self.notices
                raise error
            rows = [[None if pq.PQgetisnull(held, r, c) else pq.PQgetvalue(held, r, c).decode() for c in range(pq.PQnfields(held))]
                    for r in range(pq.PQntuples(held))]
        finally:
            pq.PQclear(held)
        return rows, self.notices

    def value(self, sql, params=None):
        """The first column of the first row, None where there is none."""
        rows, _ = self.query(sql, params)
        return rows[0][0] if rows else None

    def close(self):
        if self.handle:
            self.pq.PQfinish(self.handle)
            self.handle = None
