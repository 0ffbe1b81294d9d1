#!/usr/bin/python3
"""The inbox in a browser, as a reviewer uses it: test.py [SCREENSHOT]

Risk: a person who has only the reviewer's grant cannot decide from the page, or decides what the page did not show; another
site decides for her; the run does not go on, or runs what was not approved.

Run by test/run examples=inbox, on a server of its own (PGHOST, PGDATABASE: a database with setup.sql in it), with a headless
Chromium.  Prints TAP.  Waits for conditions, never for a time.
"""
import base64
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

try:
    import bottle  # noqa: F401  the example's own
    import psycopg
    from selenium import webdriver
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.expected_conditions import staleness_of
    from selenium.webdriver.support.ui import WebDriverWait
    missing = [c for c in ("chromium", "chromedriver") if not shutil.which(c)]
except ImportError as e:
    missing = [str(e)]
if missing:
    print(f"ok - examples/inbox # SKIP no browser to test it with ({', '.join(missing)}): scripts/install-deps.sh --browser")
    sys.exit()

HERE = pathlib.Path(__file__).parent
LONG = 60		# seconds; a bound for what hangs, not a time that is expected
tests = failed = 0


def ok(true, name):
    global tests, failed
    tests += 1
    failed += not true
    print(f"{'ok' if true else 'not ok'} - examples/inbox: {name}", flush=True)


def is_(got, expected, name):
    ok(got == expected, name)
    if got != expected:
        print(f"#   got:      {got!r}\n#   expected: {expected!r}", flush=True)


admin = psycopg.connect(user="postgres", autocommit=True)


def value(sql, *args):
    return admin.execute(sql, args).fetchone()[0]


# rita has to show her password, also where everybody else is trusted
hba = pathlib.Path(value("SHOW hba_file"))
hba.write_text("local all rita scram-sha-256\n" + hba.read_text())
value("SELECT pg_reload_conf()")

with socket.socket() as s:
    s.bind(("127.0.0.1", 0))
    port = s.getsockname()[1]
at = f"127.0.0.1:{port}"
page = f"http://rita:rita@{at}/"
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
log = open(f"{profile.name}/inbox.log", "w+")
server = subprocess.Popen([sys.executable, HERE / "inbox.py", "acme", str(port)], stderr=log)
for _ in range(10 * LONG):
    with socket.socket() as s:
        if s.connect_ex(("127.0.0.1", port)) == 0 or server.poll() is not None:
            break
    time.sleep(0.1)


def request(path="/", password="rita", form=None):
    """The status that a request without a browser gets."""
    r = urllib.request.Request(f"http://{at}{path}", urllib.parse.urlencode(form).encode() if form else None)
    if password:
        r.add_header("Authorization", "Basic " + base64.b64encode(f"rita:{password}".encode()).decode())
    try:
        return direct.open(r, timeout=LONG).status
    except urllib.error.HTTPError as e:
        return e.code


def ask(session):
    """The requester's side: a run that pauses, and waits in mw_resume."""
    return subprocess.Popen(["psql", "-XAtq", "-U", "app", "-v", f"session={session}", "-f", HERE / "ask.sql"],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def goes_on(run, name="its run goes on"):
    said = run.communicate(timeout=LONG)[0]
    ok("completed" in said, name)
    if "completed" not in said:
        print("".join(f"# {line}\n" for line in said.splitlines()), flush=True)


def refunds():
    return value("SELECT coalesce(string_agg(format('%%s %%s', invoice, amount), ', ' ORDER BY made_at), '') FROM refund")


def result(session):
    """What the model read as the call's result."""
    return value("SELECT content #>> '{}' FROM mw.message WHERE session = %s AND role = 'tool'", session)


options = webdriver.ChromeOptions()
for o in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-proxy-server",
          "--window-size=1000,1580", f"--user-data-dir={profile.name}"):
    options.add_argument(o)
browser = webdriver.Chrome(options=options)
browser.set_page_load_timeout(LONG)


def find(css):
    return browser.find_elements(By.CSS_SELECTOR, css)


def text():
    return browser.find_element(By.TAG_NAME, "body").text


def follow(element):
    """Press it, and wait until the page that it leads to is there."""
    old = find("html")[0]
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
    element.click()
    wait = WebDriverWait(browser, LONG, 0.1)
    wait.until(staleness_of(old))
    wait.until(lambda b: b.execute_script("return document.readyState") == "complete")


def press(css):
    follow(find(css)[0])


def type_in(css, what):
    field = find(css)[0]
    field.clear()
    field.send_keys(what)


def open_one(session):
    """Wait until it is in the inbox, and open it as one does."""
    def there(_):
        browser.get(page)
        return [li for li in find("li.card") if session in li.text]
    item = WebDriverWait(browser, LONG, 0.5).until(there)[0]
    follow(item.find_element(By.CSS_SELECTOR, "a.button"))


try:
    is_(request(password=None), 401, "nobody is let in without a password")
    is_(request(password="wrong"), 401, "nor with a wrong one")
    is_(request(), 200, "rita is")
    browser.get(page)
    ok("Nothing waits for you." in text(), "an empty inbox says so")

    # ---------- approve ----------
    run = ask("ticket-4711")
    open_one("ticket-4711")
    ok("May refund run?" in text() and "129.90" in text() and "Money leaves the company" in text(), "the page says what will run, and with what")
    ok("alice" not in browser.page_source and find("textarea[name=args_0]")[0].get_property("value").startswith("{"), "no more than that, and what may be edited")
    if len(sys.argv) > 1:
        browser.set_window_size(1000, browser.execute_script("return document.documentElement.scrollHeight + outerHeight - innerHeight"))
        browser.get_screenshot_as_file(sys.argv[1])
    waiting = browser.current_url
    type_in("#comment", "seen the <b>receipt</b>")
    press("button.approve")
    ok("Approved by rita" in text() and "seen the <b>receipt</b>" in text(), "it is recorded by one button, with a note")
    goes_on(run, "the requester's run goes on")
    is_(refunds(), "17 129.90", "and the tool has run, once")
    browser.get(waiting)
    ok("it has run" in text() and not find("form"), "the page says that it has, and asks no more")

    # ---------- reject ----------
    run = ask("ticket-4712")
    open_one("ticket-4712")
    type_in("[name=reason_0]", "No receipt")
    press("button.reject")
    ok("Rejected by rita" in text(), "a rejection is recorded")
    goes_on(run)
    is_(refunds(), "17 129.90", "and nothing has run")
    is_(result("ticket-4712"), "User rejected the tool call for `refund` with reason: No receipt", "the model reads the reason")

    # ---------- edit ----------
    run = ask("ticket-4713")
    open_one("ticket-4713")
    type_in("[name=args_0]", '{"invoice": 17, "amount": 99.90')
    press("button.edit")
    ok("the arguments are no JSON" in text() and find("form"), "what is no JSON is said, and can be mended")
    type_in("[name=args_0]", '{"invoice": 17, "amount": 99.90, "reason": "Half of it"}')
    press("button.edit")
    is_([r.text.split("\n")[:2] for r in find("tr.changed th")], [["amount", "changed"], ["reason", "changed"]], "what changes is shown first")
    is_(value("SELECT count(*) FROM mw.inbox WHERE session = 'ticket-4713'"), 1, "and not recorded yet")
    press("button.main")
    ok("Edited by rita" in text(), "then it is")
    goes_on(run)
    is_(refunds(), "17 129.90, 17 99.90", "with what the reviewer wrote")

    # ---------- answer, after somebody else's site has tried ----------
    run = ask("<img src=x onerror=document.title='broken'>")
    open_one("<img src=x")
    ok(not find("img") and browser.title == "May refund run?", "a name that is markup is text")
    one = urllib.parse.parse_qs(urllib.parse.urlparse(browser.current_url).query)["interrupt_id"][0]
    is_(request(form={"interrupt_id": one, "type_0": "approve"}), 403, "a form from elsewhere, sent with her password, is refused")
    is_(request(form={"interrupt_id": one, "type_0": "approve", "token": "0" * 64}), 403, "with a guessed token, too")
    is_(value("SELECT count(*) FROM mw.inbox WHERE interrupt_id = %s", one), 1, "and it still waits")
    press("button.respond")
    ok("Nothing was recorded" in text() and "respond needs a message" in text(), "an answer without words is refused, and why")
    here = browser.current_window_handle
    browser.switch_to.new_window("tab")
    browser.get(f"{page}?interrupt_id={one}")
    late = browser.current_window_handle
    browser.switch_to.window(here)
    type_in("[name=answer_0]", "It was refunded yesterday.")
    press("button.respond")
    ok("Answered by rita" in text(), "with words it is recorded")
    goes_on(run)
    is_(result("<img src=x onerror=document.title='broken'>"), "It was refunded yesterday.", "with them")
    browser.switch_to.window(late)
    press("button.approve")
    ok("no interrupt is waiting for a decision" in text(), "who presses a button too late is told so")
    is_(refunds(), "17 129.90, 17 99.90", "and nothing runs")

    # ---------- what is left ----------
    with psycopg.connect(user="rita", password="rita") as rita:
        is_(rita.execute("SELECT (SELECT count(*) FROM mw.message) + (SELECT count(*) FROM mw.session) + (SELECT count(*) FROM mw.ledger)").fetchone()[0],
            0, "rita has seen no conversation and no bill")
    is_(value("SELECT string_agg(format('%%s: %%s by %%s', session, event, role), ', ' ORDER BY at, seq) FROM mw.approval_log WHERE session = 'ticket-4711'"),
        "ticket-4711: asked by app, ticket-4711: decided by rita, ticket-4711: done by app", "the log tells who asked and who decided")
    is_(value("SELECT count(*) FROM mw_check()"), 0, "and is whole")
finally:
    browser.quit()
    server.terminate()
    server.wait()
    if failed or sys.exc_info()[0]:
        log.seek(0)
        print("".join("# " + line for line in log), flush=True)
print(f"1..{tests}")
sys.exit(failed > 0)
