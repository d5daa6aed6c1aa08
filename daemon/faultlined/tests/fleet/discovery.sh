# Prometheus and vmagent find a daemon by file, HTTP and DNS. In a network of its own: unshare -n -m sh discovery.sh FOLDER DAEMON VMAGENT
# FOLDER has discovery.yml with the addresses below. Prints what both found.
set -eu
cd "$1"
trap 'kill $(cat pids)' EXIT
start() { "$@" >>programs.log 2>&1 & echo $! >>pids; }
ip link set lo up
echo "nameserver 127.0.0.1" >resolv.conf
mount --bind resolv.conf /etc/resolv.conf
mkdir served targets
echo '[{ "targets": ["127.0.0.1:9912"], "labels": { "host": "http", "instance": "fra1-http" } }]' >served/faultline.json
echo '- { targets: ["127.0.0.1:9912"], labels: { host: file, instance: fra1-file } }' >targets/hosts.yml
start dnsmasq --no-daemon --no-resolv --no-hosts --conf-file=/dev/null --pid-file= --listen-address=127.0.0.1 --bind-interfaces \
  --srv-host=_faultline._tcp.fra1.example,dns.fra1.example,9912 --address=/dns.fra1.example/127.0.0.1
start python3 -m http.server --bind 127.0.0.1 --directory served 8000
echo '[metrics]
hosts = ["dns.fra1.example"]' >daemon.toml
start "$2" run --demo --config daemon.toml
start prometheus --config.file=discovery.yml --storage.tsdb.path=data --web.listen-address=127.0.0.1:9090 --web.enable-remote-write-receiver
start "$3" -promscrape.config=discovery.yml -remoteWrite.url=http://127.0.0.1:9090/api/v1/write -remoteWrite.tmpDataPath=queue \
  -httpListenAddr=127.0.0.1:8429
found=
for _ in $(seq 90); do
  sleep 1
  found=$(promtool query instant http://127.0.0.1:9090 'sort_desc(up{job="faultline"} == 1)' 2>&1 || true)
  [ "$(echo "$found" | grep -c 'instance="fra1-')" = 6 ] && break
done
echo "$found" | grep -o '{.*}' | sort
