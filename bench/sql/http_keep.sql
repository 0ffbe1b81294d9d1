SELECT floor_http(:url, :body, true);
