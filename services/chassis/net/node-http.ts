/**
 * Node's `http` module without the side effects of an `import`, which reads each export to create bindings.
 * One of them, `WebSocket`, loads Node's fetch client and HTTP/2, which take 14 MiB of each process and 50 ms
 * of its start. This way only the named exports are read. (Types may be imported normally.)
 */
export const { Agent, createServer, METHODS, request, STATUS_CODES } = process.getBuiltinModule('node:http')
