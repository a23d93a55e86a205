/**
 * Names that belong to the transport: sent as metadata they would replace its own, or break the connection;
 * received they are not shown to handlers.
 */
export const reservedNames: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'content-type',
  'grpc-accept-encoding',
  'grpc-encoding',
  'grpc-message',
  'grpc-status',
  'grpc-timeout',
  'host',
  'http2-settings',
  'keep-alive',
  'proxy-connection',
  'te',
  'transfer-encoding',
  'upgrade',
])
