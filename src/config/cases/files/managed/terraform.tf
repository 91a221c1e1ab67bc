resource "confluent_connector" "orders" {
  environment {
    id = confluent_environment.shop.id
  }
  config_sensitive = {
    "database.password" = var.database_password
  }
  // Not secret.
  config_nonsensitive = {
    "connector.class"    = "PostgresCdcSourceV2"
    "name"               = "${var.project}-orders"
    "database.hostname"  = substr(aws_db_instance.shop.endpoint, 0, 5)
    "database.port": 5432,
    "output.data.format" = "AVRO" # with the registry
    "transforms.outbox.route.topic.replacement" = "$${routedByValue}"
  }
}
