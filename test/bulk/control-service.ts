import { createServer } from 'node:http2'

/** A rate limit service that allows each call without reading it. `control-service.ts PORT`. */
const [port = ''] = process.argv.slice(2)
/** `RateLimitResponse{overall_code: OK}` as a message of gRPC. */
const allowed = Buffer.from([0, 0, 0, 0, 2, 8, 1])

const server = createServer()
server.on('stream', stream => {
  stream.on('error', () => {})
  stream.on('wantTrailers', () => stream.sendTrailers({ 'grpc-status': '0' }))
  stream.respond({ ':status': 200, 'content-type': 'application/grpc' }, { waitForTrailers: true })
  stream.resume().on('end', () => stream.end(allowed))
})
server.listen(Number(port), '127.0.0.1', () => process.stdout.write('serving\n'))
