SELECT mw_invoke('bench', 's' || :client_id::text, :p || translate(md5(random()::text), '0123456789', 'ghijklmnop'));
