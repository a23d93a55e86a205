/**
 * Loads the module without an `import`, which reads every export: reading `WebSocket` loads Node's fetch
 * client and HTTP/2, 14 MiB and 50 ms in each process. Types may be imported.
 */
export const { Agent, createServer, METHODS, request, STATUS_CODES } = process.getBuiltinModule('node:http')
