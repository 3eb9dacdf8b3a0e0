#!/usr/bin/env bash
# A cluster of Ceph with its server of S3 (radosgw) for a test, on this machine, with all that it keeps in memory.
#
#   tests/whole/radosgw.sh FOLDER PORT
#
# Needs Debian's ceph-common, ceph-mon, ceph-osd and radosgw, and ports PORT to PORT + 2. The key is TESTKEY, its
# secret test/secret+key. Returns when the server listens; the numbers of its processes stand in FOLDER/pids. A
# folder can be used once.
set -euo pipefail

folder=$(realpath -m "$1")
port=$2
mkdir -p "$folder"/{mon,osd,run,log,rgw}
cat >"$folder/ceph.conf" <<CONF
[global]
fsid = $(cat /proc/sys/kernel/random/uuid)
mon host = [v2:127.0.0.1:$((port + 1)),v1:127.0.0.1:$((port + 2))]
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind ipv6 = false
mon allow pool size one = true
auth allow insecure global id reclaim = true
mon warn on pool no redundancy = false
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 4
osd pool default pgp num = 4
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon max pg per osd = 1000
run dir = $folder/run
admin socket = $folder/run/\$name.\$pid.asok
pid file = $folder/run/\$name.pid
log file = $folder/log/\$name.log
mon cluster log file = $folder/log/cluster.log
mon data = $folder/mon
osd data = $folder/osd
osd objectstore = memstore
memstore device bytes = 1073741824
mon data avail crit = 1
crash dir = $folder/run
keyring = $folder/keyring
[client.admin]
rgw data = $folder/rgw
rgw frontends = beast endpoint=127.0.0.1:$port tcp_nodelay=1
CONF
fsid=$(sed -n 's/^fsid = //p' "$folder/ceph.conf")
conf=(-c "$folder/ceph.conf")
keyring=$folder/keyring

ceph-authtool --create-keyring "$keyring" --gen-key -n mon. --cap mon 'allow *'
ceph-authtool "$keyring" --gen-key -n client.admin --cap mon 'allow *' --cap osd 'allow *' --cap mgr 'allow *'
ceph-authtool "$keyring" --gen-key -n osd.0 --cap mon 'allow profile osd' --cap osd 'allow *'
monmaptool --create --clobber --addv a "[v2:127.0.0.1:$((port + 1)),v1:127.0.0.1:$((port + 2))]" --fsid "$fsid" "$folder/monmap"
ceph-mon "${conf[@]}" -i a --mkfs --monmap "$folder/monmap" --keyring "$keyring"
ceph-mon "${conf[@]}" -i a -f >"$folder/log/mon.out" 2>&1 &
echo $! >"$folder/pids"
osd=$(cat /proc/sys/kernel/random/uuid)
timeout 60 ceph "${conf[@]}" osd new "$osd"
ceph-osd "${conf[@]}" -i 0 --osd-uuid "$osd" --mkfs >"$folder/log/osd.out" 2>&1
ceph-osd "${conf[@]}" -i 0 -f >>"$folder/log/osd.out" 2>&1 &
echo $! >>"$folder/pids"
timeout 60 ceph "${conf[@]}" osd crush add osd.0 1.0 root=default host=h
for _ in $(seq 100); do
  ceph "${conf[@]}" osd stat | grep -q '1 up' && break
  sleep 0.2
done
radosgw "${conf[@]}" -n client.admin -f >"$folder/log/rgw.out" 2>&1 &
echo $! >>"$folder/pids"
timeout 120 radosgw-admin "${conf[@]}" user create --uid test --display-name test --access-key TESTKEY \
  --secret-key 'test/secret+key' >/dev/null
for _ in $(seq 300); do
  (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && exit 0
  sleep 0.2
done
exit 1
