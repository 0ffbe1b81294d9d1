SELECT mw_invoke('bench', 's' || :client_id::text, :p || translate(random()::text, '0123456789.', 'ghijklmnopq'));
