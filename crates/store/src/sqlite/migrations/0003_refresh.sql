-- Until then somebody is refreshing the user's grant: its refresh token is good for one use.
ALTER TABLE users ADD COLUMN refresh_until INTEGER;
