# A dashboard's queries, one a line, with what Grafana puts in the place of its variables: as in
# daemon/faultlined/tests/real_cluster/dashboards.rs.
(input_filename | split("/") | last | rtrimstr(".json")) as $dashboard |
(.templating.list | map({key: .name, value: (
  if .multi then ".*" elif .name == "instance" then "guest" elif .name == "earlier" then "20s" else ".+" end)})) as $variables |
.panels[] | . as $panel | .targets // [] | .[] |
{
  $dashboard, panel: $panel.title, letter: .refId, range: (.range == true),
  expression: (reduce ([{key: "__rate_interval", value: "30s"}, {key: "__range", value: "5m"}] + $variables)[] as $variable
    (.expr; gsub("\\$" + $variable.key; $variable.value)))
}
