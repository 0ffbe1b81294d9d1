-- the rows of tenant bench are those whose number is a multiple of 100
\set k 100 * random(1, :rows / 100)
SELECT answer FROM bench.kv WHERE tenant = 'bench' AND key = decode(md5(:k::text), 'hex');
