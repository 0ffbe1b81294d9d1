SELECT floor_http(:url, :body, false);
