/**
 * Header names of the transport. In metadata to be sent they would replace its headers or break the
 * connection; in received metadata they are hidden from handlers.
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
