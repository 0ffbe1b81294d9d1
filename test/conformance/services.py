"""What a run needs around it: a private server with mw preloaded, the scripted upstream, connections.

The server is scripts/cluster's, as an unprivileged user, on a socket of its own; the upstream listens on a port that the
system chooses.  Both are stopped by their number, whatever happens.
"""
import http.client
import json
import os
import re
import subprocess
import sys
import urllib.parse

import libpq

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
CLUSTER = os.path.join(TOP, "scripts", "cluster")
ROLE = "conformance_app"


class Server:
    """A private cluster, or with a name one that runs already and is left running."""

    def __init__(self, running=None):
        self.name, self.own = running or "conformance", not running
        if self.own:
            subprocess.run([CLUSTER, "start", self.name, "--preload"], check=True, stdin=subprocess.DEVNULL)
        said = subprocess.run([CLUSTER, "env", self.name], check=True, capture_output=True, text=True).stdout
        self.env = dict(re.findall(r"(\w+)='?([^'\s]*)'?", said))
        self.pq = libpq.load(subprocess.run([os.path.join(self.env["MW_BIN"], "pg_config"), "--libdir"], check=True,
                                            capture_output=True, text=True).stdout.strip())
        self.database = "postgres"
        self.new_database("conformance")

    def connect(self, user=None):
        c = libpq.Connection("host='%s' port=%s user=%s dbname=%s client_encoding=UTF8" % (
            self.env["PGHOST"], self.env["PGPORT"], user or self.env["PGUSER"], self.database), self.pq)
        c.query("SET statement_timeout = '60s'")
        return c

    def new_database(self, name):
        """A database with mw, the scenarios' functions and the application's role."""
        c = self.connect()
        c.query('DROP DATABASE IF EXISTS "%s"' % name)
        c.query('CREATE DATABASE "%s"' % name)
        if not c.value("SELECT 1 FROM pg_roles WHERE rolname = $1", [ROLE]):
            c.query("CREATE ROLE %s LOGIN" % ROLE)
        c.close()
        self.database = name
        c = self.connect()
        c.query("CREATE EXTENSION mw")
        with open(os.path.join(HERE, "actions.sql"), encoding="utf-8") as f:
            c.query(f.read())
        c.close()

    def stop(self):
        if self.own:
            subprocess.run([CLUSTER, "stop", self.name], stdin=subprocess.DEVNULL)


class Upstream:
    """scripted_upstream.py, asked over connections that are kept."""

    def __init__(self):
        self.process = subprocess.Popen([sys.executable, os.path.join(HERE, "scripted_upstream.py")], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, text=True)
        self.url = self.process.stdout.readline().split()[1]
        self.port = int(self.url.rsplit(":", 1)[1])

    def session(self, name):
        return Session(self, name)

    def stop(self):
        self.process.terminate()
        self.process.wait()


class Session:
    def __init__(self, upstream, name):
        self.path = "/s/" + urllib.parse.quote(name, safe="")
        self.base_url = upstream.url + self.path + "/v1"
        self.http = http.client.HTTPConnection("127.0.0.1", upstream.port, timeout=60)

    def ask(self, method, path, body=None):
        self.http.request(method, self.path + path, None if body is None else json.dumps(body), {"content-type": "application/json"})
        return json.load(self.http.getresponse())

    def reset(self, scenario):
        self.ask("POST", "/_reset", {"scenario": scenario["name"], "script": scenario.get("script", {})})

    def log(self):
        return self.ask("GET", "/_log")

    def close(self):
        self.http.close()
