-- Risk: text of a model or a user is markup on a reviewer's page, or reads otherwise than it runs; a page shows a role what it
-- may not see, leaves out what waits, or cuts what is to be approved; an edit is recorded that nobody has seen.
BEGIN;
SELECT plan(41);

CREATE SERVER pgtap_page FOREIGN DATA WRAPPER mw OPTIONS (api 'fake');
CREATE ROLE pgtap_asker;
CREATE ROLE pgtap_reviewer;
CREATE ROLE pgtap_narrow;
CREATE ROLE pgtap_stranger;
GRANT USAGE ON FOREIGN SERVER pgtap_page TO pgtap_asker;
SELECT mw_create_tenant('pgtap-page', '{"cache": false, "guardrail": false}');
SELECT mw_create_tenant('pgtap-else', '{"cache": false}');
SELECT mw_grant_tenant('pgtap-page', 'pgtap_asker');
CREATE SCHEMA page;
GRANT USAGE ON SCHEMA page TO pgtap_asker;
CREATE FUNCTION page.send(what text, how jsonb DEFAULT NULL) RETURNS text LANGUAGE sql STABLE AS $$ SELECT 'sent ' || what $$;
SELECT mw_create_tool('send', 'page.send', 'Send.', tenant => 'pgtap-page');
SELECT mw_create_tool('post', 'page.send', 'Post.', tenant => 'pgtap-page');
SELECT mw_create_agent('clerk', '{"model": "pgtap_page:m", "tools": ["send", "post"], "middleware": [
	{"type": "human_in_the_loop", "interrupt_on": {"send": true, "post": {"allowed_decisions": ["approve", "reject"], "description": "Post? <i>Now</i>"}}}]}', 'pgtap-page');
SELECT mw_grant_reviewer('pgtap-page', 'pgtap_reviewer');
SELECT mw_grant_reviewer('pgtap-page', 'pgtap_narrow', '{post}');

-- a run in this session that pauses at these calls
CREATE FUNCTION pg_temp.pause(session text, VARIADIC calls jsonb[]) RETURNS text LANGUAGE plpgsql AS $$
DECLARE s text;
BEGIN
	PERFORM mw_fake('pgtap_page', jsonb_build_object('m', jsonb_build_array(jsonb_build_object('tool_calls', to_jsonb(calls)), '{"text": "done"}'::jsonb)));
	EXECUTE 'SET LOCAL ROLE pgtap_asker';
	s := mw_invoke('pgtap-page', session, 'Send <b>it</b> to bob@acme.com', agent => 'clerk') ->> 'status';
	RESET ROLE;
	RETURN s;
END $$;
CREATE FUNCTION pg_temp.call(id text, tool text, args jsonb) RETURNS jsonb LANGUAGE sql AS $$
	SELECT jsonb_build_object('id', id, 'name', tool, 'arguments', args) $$;
CREATE FUNCTION pg_temp.id(s text) RETURNS text LANGUAGE sql AS $$
	SELECT interrupt_id FROM mw.interrupt WHERE tenant = 'pgtap-page' AND session = s LIMIT 1 $$;
-- a page as a role sees it
CREATE FUNCTION pg_temp.page(role text, page_size int DEFAULT 50, before text DEFAULT NULL, interrupt_id text DEFAULT NULL, decisions jsonb DEFAULT NULL, form jsonb DEFAULT NULL)
RETURNS text LANGUAGE plpgsql AS $$
DECLARE r text;
BEGIN
	EXECUTE format('SET LOCAL ROLE %I', role);
	r := mw_inbox_html('pgtap-page', page_size, before, interrupt_id, decisions, form);
	RESET ROLE;
	RETURN r;
END $$;
-- which interrupts a page lists, by session and in order
CREATE FUNCTION pg_temp.listed(page text) RETURNS text LANGUAGE sql AS $$
	SELECT coalesce(string_agg(i.session, ' ' ORDER BY m.n), '')
	FROM regexp_matches(page, '<li class="card" id="([0-9a-f]+)"', 'g') WITH ORDINALITY AS m(id, n)
	JOIN (SELECT DISTINCT session, interrupt_id FROM mw.interrupt) AS i ON i.interrupt_id = m.id[1] $$;
-- XML's parser as a judge of what is markup: how many elements of a name there are (or -1 where it is no page)
CREATE FUNCTION pg_temp.elements(page text, name text) RETURNS int LANGUAGE plpgsql AS $$
BEGIN
	-- elements that HTML leaves open, and attributes without a value
	page := regexp_replace(regexp_replace(page, '^<!DOCTYPE html>\s*', ''), '<(meta|input)( [^>]*?)>', '<\1\2/>', 'g');
	page := regexp_replace(page, ' required>', ' required="">', 'g');
	page := regexp_replace(page, ' required/>', ' required=""/>', 'g');
	RETURN array_length(xpath('//' || name, page::xml), 1);
EXCEPTION WHEN invalid_xml_document OR invalid_xml_content THEN
	RETURN -1;
END $$;

-- ---------- what a page may not do ----------

SELECT is(pg_temp.pause('evil', pg_temp.call('c1', 'send', jsonb_build_object('what', '<script>alert(1)</script>" onload=''x'' &amp; ' || U&'\202Etxt.exe\200B\+0E0041', '</pre><b>', 1))),
	'interrupted', 'a model asks for something nasty');
CREATE TEMPORARY TABLE evil AS SELECT pg_temp.page('pgtap_reviewer') AS list, pg_temp.page('pgtap_reviewer', interrupt_id => pg_temp.id('evil')) AS one,
	pg_temp.page('pgtap_reviewer', interrupt_id => pg_temp.id('evil'), form => '{"action": "/\"><b>", "fields": {"\"><b>": "\"><b>"}, "notice": "<b>\u202e"}') AS form;
SELECT is(pg_temp.elements(list, 'script') + 0, NULL, 'no script in the list') FROM evil;
SELECT is(pg_temp.elements(one, 'script') + 0, NULL, 'nor on the page of one') FROM evil;
SELECT is(pg_temp.elements(form, 'b') + 0, NULL, 'nor any element of somebody''s with a form') FROM evil;
SELECT is(pg_temp.elements(form, 'form'), 1, 'whose form is there') FROM evil;
SELECT ok(one !~ '[\u202e\u200b]' AND list !~ '[\u202e\u200b]' AND form !~ '[\u202e\u200b]', 'nothing turns or hides text') FROM evil;
SELECT ok(strpos(one, '\u202etxt.exe\u200b\udb40\udc41') > 0, 'it is shown as its number') FROM evil;
SELECT ok(one LIKE '%content="default-src ''none''; style-src ''unsafe-inline''; base-uri ''none''; form-action ''self''"%', 'the page forbids itself scripts') FROM evil;
SELECT ok(one !~ '(src|href)="?https?:', 'and needs nothing from elsewhere') FROM evil;
SELECT is(replace(replace(replace(replace(replace((regexp_match(form, '<textarea[^>]*name="args_0"[^>]*>([^<]*)<'))[1],
	'&lt;', '<'), '&gt;', '>'), '&quot;', '"'), '&#39;', ''''), '&amp;', '&')::jsonb, (SELECT args FROM mw.interrupt WHERE session = 'evil'), 'what is edited begins as exactly what was asked for') FROM evil;

-- ---------- one interrupt ----------

SELECT is(pg_temp.pause('batch', pg_temp.call('c1', 'send', '{"what": "one", "how": {"fast": true}}'), pg_temp.call('c2', 'post', '{"what": "two"}')), 'interrupted', 'two calls wait in one interrupt');
SELECT ok(pg_temp.page('pgtap_reviewer', interrupt_id => pg_temp.id('batch')) LIKE '%May these 2 calls run?%&quot;one&quot;%&quot;two&quot;%', 'its page has both');
SELECT ok(pg_temp.page('pgtap_reviewer') LIKE '%and 1 more in one decision%', 'the list says so');
SELECT ok(replace(replace(pg_temp.page('pgtap_reviewer', interrupt_id => pg_temp.id('batch')), '&quot;', '"'), '&#39;', '''') LIKE
	'%mw_decide(''pgtap-page'', ''batch'', ''{"decisions": [{"type": "approve"}, {"type": "approve"}]}'', interrupt_id =&gt; ''' || pg_temp.id('batch') || ''');%', 'without a form it says what to type');
SELECT is(regexp_replace(pg_temp.page('pgtap_reviewer', interrupt_id => pg_temp.id('batch')), '.*<h2>Conversation batch</h2>\s*([^<]*)<.*', '\1'),
	'What was said in it is shown to roles that may act for the tenant.', 'a reviewer alone does not read the conversation');
SELECT ok(pg_temp.page('pgtap_asker', interrupt_id => pg_temp.id('batch')) LIKE '%Send &lt;b&gt;it&lt;/b&gt; to &lt;EMAIL_0&gt;%', 'who may act for the tenant does, with placeholders');
SELECT is(pg_temp.elements(pg_temp.page('pgtap_asker', interrupt_id => pg_temp.id('batch'), form => '{"action": "/"}'), 'form'), NULL, 'who asked has nothing to decide');
SELECT ok(pg_temp.page('pgtap_asker', interrupt_id => pg_temp.id('batch')) LIKE '%It waits for somebody else&#39;s decision.%', 'and is told so');
SELECT is(pg_temp.elements(pg_temp.page('pgtap_reviewer', interrupt_id => pg_temp.id('batch'), form => '{"action": "/"}'), 'input[@type="radio"]'), 6, 'a reviewer chooses for each call among what is allowed');
SELECT ok(pg_temp.page('pgtap_reviewer', interrupt_id => pg_temp.id('batch')) LIKE '%Post? &lt;i&gt;Now&lt;/i&gt;%', 'the agent''s own words are there');
SELECT ok(pg_temp.page('pgtap_narrow', interrupt_id => pg_temp.id('evil')) LIKE '%There is none of that id that you may see.%', 'a reviewer of other tools sees nothing');
SELECT is(pg_temp.page('pgtap_stranger', interrupt_id => pg_temp.id('evil')) LIKE '%There is none of that id%', true, 'nor a stranger');
SELECT is(pg_temp.listed(pg_temp.page('pgtap_stranger')) || pg_temp.listed(pg_temp.page('pgtap_asker')), '', 'in the list neither');
SELECT is(pg_temp.listed(pg_temp.page('pgtap_narrow')), 'batch', 'a reviewer of one tool sees the interrupt that has it');

-- ---------- what changes ----------

CREATE TEMPORARY TABLE edit AS SELECT pg_temp.page('pgtap_reviewer', interrupt_id => pg_temp.id('batch'), form => '{"action": "/"}',
	decisions => '{"decisions": [{"type": "edit", "edited_action": {"name": "send", "args": {"what": "uno", "more": 1.10}}}, {"type": "reject", "message": "not <now>"}]}') AS page;
SELECT ok(page ~ 'class="changed"><th scope="row">what <b>changed</b></th><td><pre>&quot;one&quot;</pre></td><td><pre>&quot;uno&quot;</pre>', 'an argument that changes is marked') FROM edit;
SELECT ok(page ~ 'how <b>left out</b>' AND page ~ 'more <b>added</b></th><td></td><td><pre>1.10</pre>', 'so are those that come and go, to the digit') FROM edit;
SELECT ok(pg_temp.page('pgtap_reviewer', interrupt_id => pg_temp.id('batch'), form => '{"action": "/"}',
	decisions => '{"decisions": [{"type": "edit", "edited_action": {"name": "po<st", "args": {}}}, {"type": "approve"}]}') LIKE '%Another tool runs in its place: <strong>po&lt;st</strong>%', 'another tool is said to be one');
SELECT ok(page LIKE '%About to be recorded: <strong>Reject</strong>%not &lt;now&gt;%', 'the other decision stands at its call') FROM edit;
SELECT is(replace((regexp_match(page, 'name="decisions" value="([^"]*)"'))[1], '&quot;', '"')::jsonb #> '{decisions,0,edited_action,args,more}', '1.10'::jsonb, 'what is recorded next is what was shown') FROM edit;
SELECT is((SELECT count(*)::int FROM mw.interrupt WHERE tenant = 'pgtap-page' AND status <> 'open'), 0, 'a look records nothing');
SET ROLE pgtap_reviewer;
SELECT mw_decide('pgtap-page', 'batch', '{"decisions": [{"type": "edit", "edited_action": {"name": "send", "args": {"what": "uno"}}}, {"type": "approve"}]}', comment => 'looks <good>');
RESET ROLE;
SELECT ok(pg_temp.page('pgtap_reviewer', interrupt_id => pg_temp.id('batch')) LIKE '%decided; its run has not come back yet%<strong>Edited</strong> by pgtap_reviewer%looks &lt;good&gt;%uno%', 'a decided one says what, by whom and why');
SELECT is(pg_temp.elements(pg_temp.page('pgtap_reviewer', interrupt_id => pg_temp.id('batch'), form => '{"action": "/"}'), 'form'), NULL, 'and has no form any more');
SELECT is(pg_temp.listed(pg_temp.page('pgtap_reviewer')), 'evil', 'nor does it wait');

-- ---------- pages ----------

INSERT INTO mw.interrupt (tenant, session, interrupt_id, place, run_id, middleware, mode, tool, tool_call_id, args, args_hash, shown_hash, description, allowed_decisions, requested_by, requested_at)
	SELECT 'pgtap-page', 'p' || n, md5('page' || n), p, gen_random_uuid(), 'm', 'batched', 'send', 'c' || p, '{}', '', '', 'd', '{approve}', 'pgtap_asker', '2030-01-01'::timestamptz + n / 2 * interval '1 s'
	FROM generate_series(1, 5) AS n, generate_series(0, 1) AS p;
CREATE FUNCTION pg_temp.all_pages(size int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	page text; r text := ''; last text;
BEGIN
	LOOP
		page := pg_temp.page('pgtap_reviewer', size, last, form => '{"action": "/inbox"}');
		r := concat_ws(' | ', nullif(r, ''), pg_temp.listed(page));
		EXIT WHEN page NOT LIKE '%>Older</a>%';
		last := (regexp_match(page, '<a href="/inbox\?before=([0-9a-f]+)">Older'))[1];
	END LOOP;
	RETURN r;
END $$;
SELECT is(replace(pg_temp.all_pages(2), ' |', ''), pg_temp.all_pages(50), 'pages of two have what one page of all has, in its order, batches whole');
SELECT is(pg_temp.listed(pg_temp.page('pgtap_reviewer', 0)), split_part(pg_temp.all_pages(50), ' ', 1), 'a page has one interrupt at least');
SELECT ok(pg_temp.page('pgtap_reviewer', before => 'no such') LIKE '%Nothing older waits for you.%', 'nothing is older than what there is not');
SELECT is(pg_temp.listed(mw_inbox_html('pgtap-else')), '', 'another tenant''s page has none of it');

-- ---------- size ----------

UPDATE mw.interrupt SET args = jsonb_build_object('what', repeat(U&'x<\202E', 350000)), description = repeat('<', 1000000) WHERE session = 'evil';
SELECT ok(length(pg_temp.page('pgtap_reviewer')) < 40000, 'the list is short, however long the arguments are');
SELECT ok(length(pg_temp.page('pgtap_reviewer', interrupt_id => pg_temp.id('evil'))) > 3500000, 'the page of one has all of it');

-- ---------- wrong arguments ----------

SELECT throws_ok($$SELECT mw_inbox_html('pgtap-page', form => '{"actoin": "/"}')$$, 'MW001', NULL, 'a form with an unknown key');
SELECT throws_ok($$SELECT mw_inbox_html('pgtap-page', form => '{"action": 1}')$$, 'MW001', NULL, 'an action that is no text');

SELECT * FROM finish();
ROLLBACK;
