-- hits under a limit of requests: each is counted
\set k random(0, 999)
SELECT mw_invoke('requests', 's1', :p || translate(:k::text, '0123456789', 'abcdefghij'));
