"""quoted.py PAGE FILE... - is every SQL block of a Markdown page somewhere in these files, word for word?

A page that shows pieces of examples which are run elsewhere is true as long as it quotes them.  Prints TAP.
"""
import re
import sys

page, *files = sys.argv[1:]
texts = [open(f, encoding="utf-8").read() for f in files]
blocks = re.findall(r"^```sql\n(.*?)^```", open(page, encoding="utf-8").read(), re.M | re.S)
failed = not blocks
for block in blocks:
    found = any(block in t for t in texts)
    failed |= not found
    print("%s - %s quotes: %s" % ("ok" if found else "not ok", page, block.strip().split("\n")[0][:60]))
sys.exit(failed)
