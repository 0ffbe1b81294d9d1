-- one of a thousand cached prompts; letters, since digits are personal data
\set k random(0, 999)
SELECT mw_invoke('bench', 's1', :p || translate(:k::text, '0123456789', 'abcdefghij'));
