# The HTTP API for webhooks and Slack. It passes each request with its unmodified body to the function of the route.

locals {
  routes = {
    "POST /webhook/{source}/{tenant}"   = "webhook"
    "POST /slack/interactions/{tenant}" = "slack"
    "POST /slack/commands/{tenant}"     = "slack"
  }

  functions = { webhook = var.webhook, slack = var.slack }
}

resource "aws_apigatewayv2_api" "this" {
  name          = var.name
  description   = "Webhooks and Slack requests of ${var.name}"
  protocol_type = "HTTP"
  tags          = var.tags
}

resource "aws_apigatewayv2_integration" "this" {
  for_each = local.functions

  api_id                 = aws_apigatewayv2_api.this.id
  integration_type       = "AWS_PROXY"
  integration_method     = "POST"
  integration_uri        = each.value.invoke_arn
  payload_format_version = "2.0"
}

resource "aws_apigatewayv2_route" "this" {
  #checkov:skip=CKV_AWS_309:ServiceNow, GitHub and Slack authenticate only with a signature of the body. The function verifies it on the raw bytes before any other processing.
  for_each = local.routes

  api_id             = aws_apigatewayv2_api.this.id
  route_key          = each.key
  authorization_type = "NONE"
  target             = "integrations/${aws_apigatewayv2_integration.this[each.value].id}"
}

resource "aws_apigatewayv2_stage" "this" {
  api_id      = aws_apigatewayv2_api.this.id
  name        = "$default"
  auto_deploy = true
  tags        = var.tags

  default_route_settings {
    throttling_rate_limit  = var.requests_per_second
    throttling_burst_limit = var.burst
  }

  # Logs request and status, but no bodies and no headers, because headers contain signatures.
  access_log_settings {
    destination_arn = aws_cloudwatch_log_group.this.arn
    format = jsonencode({
      at            = "$context.requestTime"
      request       = "$context.requestId"
      from          = "$context.identity.sourceIp"
      route         = "$context.routeKey"
      path          = "$context.path"
      status        = "$context.status"
      response_size = "$context.responseLength"
      latency_ms    = "$context.responseLatency"
      error         = "$context.integrationErrorMessage"
    })
  }
}

resource "aws_cloudwatch_log_group" "this" {
  name              = "/aws/apigateway/${var.name}"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.kms_key_arn
  tags              = var.tags
}

# One permission for each route. Path parameters are `*`, because Lambda compares the requested path. The stage is `*`,
# because this API has only one.
resource "aws_lambda_permission" "this" {
  for_each = local.routes

  function_name = local.functions[each.value].name
  action        = "lambda:InvokeFunction"
  principal     = "apigateway.amazonaws.com"
  source_arn    = "${aws_apigatewayv2_api.this.execution_arn}/*/${replace(replace(each.key, "/\\{[a-z]+\\}/", "*"), " ", "")}"
}

resource "aws_cloudwatch_metric_alarm" "server_errors" {
  alarm_name          = "${var.name}-api-errors"
  alarm_description   = "The HTTP API of ${var.name} returns 5xx responses. Senders retry for a limited time. Check the logs of the functions."
  namespace           = "AWS/ApiGateway"
  metric_name         = "5xx"
  dimensions          = { ApiId = aws_apigatewayv2_api.this.id }
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 1
  comparison_operator = "GreaterThanThreshold"
  threshold           = 0
  treat_missing_data  = "notBreaching"
  alarm_actions       = var.alarm_topic_arns
  ok_actions          = var.alarm_topic_arns
  tags                = var.tags
}
