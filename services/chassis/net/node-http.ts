/**
 * The functions of Node's `http` module, loaded without an `import`. An `import` reads every export, and
 * reading `WebSocket` loads Node's fetch client and HTTP/2: 14 MiB in each process, and 50 ms at the start.
 * (Types may be imported normally.)
 */
export const { Agent, createServer, METHODS, request, STATUS_CODES } = process.getBuiltinModule('node:http')
