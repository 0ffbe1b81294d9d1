-- the same by a tenant whose model takes 50 ms
SELECT mw_invoke(:t, 's1', :p || translate(random()::text, '0123456789.', 'ghijklmnopq'));
