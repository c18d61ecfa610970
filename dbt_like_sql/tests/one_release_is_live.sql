-- Where there are releases, one of them is live.
select count(*) as releases, count(*) filter (where live) as live_releases
from stg_releases
having count(*) > 0 and count(*) filter (where live) <> 1
