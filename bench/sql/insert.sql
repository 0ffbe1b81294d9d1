INSERT INTO bench.ledger (payload) VALUES (:row);
