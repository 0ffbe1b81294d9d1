-- a prompt that nobody asked before
SELECT mw_invoke('bench', 's1', :p || translate(random()::text, '0123456789.', 'ghijklmnopq'));
