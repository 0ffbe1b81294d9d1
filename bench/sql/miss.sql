-- a prompt that nobody asked before
SELECT mw_invoke('bench', 's1', :p || translate(md5(random()::text), '0123456789', 'ghijklmnop'));
