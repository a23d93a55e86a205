import { createServer } from 'node:net'

/**
 * The cost of receiving and answering alone: each read is answered with the same bytes, of the size of a
 * decision. Of HTTP it only assumes that the load has one request on each connection, which arrives complete.
 * No program with sockets of Node can be cheaper. `bare-answers.ts HTTP_PORT`.
 */
const [httpPort = ''] = process.argv.slice(2)
const body = JSON.stringify({
  overallCode: 'OK',
  statuses: [
    {
      code: 'OK',
      currentLimit: { requestsPerUnit: 1_000_000_000, unit: 'DAY' },
      limitRemaining: 999_999_999,
      durationUntilReset: '86399s',
    },
  ],
})
const head = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n`
const answer = Buffer.from(head + body)

const server = createServer({ noDelay: true }, socket => {
  socket.on('data', () => socket.write(answer))
  socket.on('error', () => {})
})
server.listen(Number(httpPort), '127.0.0.1', () => process.stdout.write('serving\n'))
