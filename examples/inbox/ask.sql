-- ask.sql: the requester's side.  As app, in the same database:
--
--   psql -Xd yourdb -U app -f examples/inbox/ask.sql
--
-- The run pauses at the refund, and mw_resume waits until somebody has decided: open the inbox meanwhile.

\set ON_ERROR_STOP on
\if :{?session} \else \set session ticket-4711 \endif

SELECT mw_fake('shop_model', '{"m": [
	{"tool_calls": [{"id": "c1", "name": "refund", "arguments": {"invoice": 17, "amount": 129.90, "reason": "The parcel was lost"}}]},
	{"text": "That is settled, as far as I could."}]}') \g /dev/null
SELECT mw_invoke('acme', :'session', 'alice@acme.com says that her parcel never came. Please refund invoice 17, 129.90 euros.', agent => 'clerk') ->> 'status' AS status;
SELECT r ->> 'status' AS status, r -> 'messages' AS messages FROM mw_resume('acme', :'session', wait => '10 minutes') AS r;
