/**
 * Node's `http` without what an `import` of it brings along: that reads each of its exports to make bindings of them, and
 * one, `WebSocket`, loads Node's client for fetch, and HTTP/2 with it. They take 14 MiB of each process, and 50 ms of its
 * start. Asked for like this, only what is named is read. (Types may be imported as ever.)
 */
export const { Agent, createServer, METHODS, request, STATUS_CODES } = process.getBuiltinModule('node:http')
