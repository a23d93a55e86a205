import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { runTollway } from '../../operator/cli/tollway-program.ts'
import { freePorts } from '../support/free-ports.ts'
import { rateLimitFiles, userLimit } from '../support/rate-limit-files.ts'
import { startRateLimit } from '../support/rate-limit-process.ts'
import { runCaptured } from '../support/run-captured.ts'

const tollwayCall = (...args: string[]) => runCaptured(output => runTollway(['call', ...args], output))

async function startService(t: TestContext) {
  const { env } = rateLimitFiles(userLimit('3/year'))
  const service = await startRateLimit(t, { ...env, BACKEND_TYPE: 'memory' })
  return { http: `http://127.0.0.1:${service.httpPort}`, grpc: `127.0.0.1:${service.grpcPort}` }
}

test('tollway call reports the decision and the health of a running service', async t => {
  const { http, grpc } = await startService(t)
  await t.test('requests a decision and prints it', async () => {
    assert.deepEqual(await tollwayCall('--health', '--http', http, '--wait', '60'), {
      code: 0,
      out: 'OK\n',
      err: '',
    })
    const ask = (...args: string[]) => tollwayCall('--http', http, '-d', 'shop', ...args)
    const first = await ask('-e', 'user=alice', '-e', 'path=/,user=a\\,b')
    assert.equal(first.code, 0, first.err)
    const [heading = '', alice = '', path = '', , overall = ''] = first.out.split('\n')
    assert.match(heading, /^DESCRIPTOR +CODE +LIMIT +REMAINING +RESETS IN$/)
    assert.match(alice, /^user=alice +OK +3\/year +2 +\d+s$/)
    assert.match(path, /^path=\/,user=a\\,b +OK +none$/)
    assert.equal(overall, 'OK')

    const look = JSON.parse((await ask('-e', 'user=alice', '--hits', '0', '-o', 'json')).out)
    assert.equal(look.statuses[0].limitRemaining, 2, 'a check counts nothing')
    const over = await ask('-e', 'user=alice', '--hits', '3')
    assert.equal(over.code, 1)
    assert.match(over.out, /user=alice +OVER_LIMIT +3\/year +0 +\d+s\n\nOVER_LIMIT\n$/)
    assert.match((await ask('-e', 'user=alice', '--hits', '9', '--give-back')).out, /3\/year +3 /)
    assert.match((await ask('-e', 'user=bob', '-o', 'yaml')).out, /^overallCode: OK$/m)
  })

  await t.test('prints OK for a domain without limits', async () => {
    const { code, out } = await tollwayCall('--http', http, '-d', 'other', '-e', 'a=b')
    assert.deepEqual([code, out.split('\n').at(-2)], [0, 'OK'])
  })

  await t.test('requests the health by gRPC', async () => {
    const ask = (...args: string[]) => tollwayCall('--health', '--grpc', grpc, ...args)
    assert.deepEqual(await ask('--service', 'ratelimit'), { code: 0, out: 'OK\n', err: '' })
    assert.equal((await ask()).code, 0)
    const unknown = await ask('--service', 'nobody')
    assert.equal(unknown.code, 2)
    assert.match(unknown.err, /answered NOT_FOUND: service "nobody": unknown/)
  })

  await t.test('reports why there is no decision', async () => {
    const [freePort = 0] = await freePorts(1)
    const closedAddress = `http://127.0.0.1:${freePort}`
    const table: [string[], RegExp][] = [
      [['-e', 'a=b'], /missing option --domain\n/],
      [['-d', 'shop'], /missing option --entries KEY=VALUE\n/],
      [['-d', 'shop', '-e', 'a'], /"a" is not KEY=VALUE/],
      [['-d', 'shop', '-e', 'a=b', '--hits', '-1'], /--hits/],
      [
        ['-d', 'shop', '-e', 'a=b', '--hits', '4294967296'],
        /--hits 4294967296: must be a whole number from 0 to 4/,
      ],
      [['-d', 'shop', '-e', 'a=b', '--http', 'here'], /--http here: must be a URL, such as http/],
      [['-d', '', '-e', 'a=b', '--http', http], /answered 400 Bad Request; see the log of the service/],
      [['--health', '--http', closedAddress], /http:\/\/127\.0\.0\.1:\d+: connection refused$/m],
      [['--health', '--grpc', closedAddress.replace('http://', '')], /answered UNAVAILABLE: .*ECONNREFUSED/],
      [['-d', 'a', '-e', 'a=b', '--grpc', grpc], /--grpc requires --health/],
      [['--health', '--service', 'a'], /--service requires --grpc/],
      [
        ['--health', '--http', closedAddress, '--wait', '0.3'],
        /http:\/\/127\.0\.0\.1:\d+: connection refused$/m,
      ],
    ]
    for (const [args, pattern] of table) {
      const { code, out, err } = await tollwayCall(...args)
      assert.deepEqual([code, out], [2, ''], args.join(' '))
      assert.match(err, pattern)
    }
  })
})

test('tollway call waits for a service that has not started yet', async t => {
  let callCount = 0
  const server = createServer((_, response) => {
    callCount += 1
    response.writeHead(callCount < 3 ? 500 : 200).end('OK')
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  t.after(() => server.close())
  const http = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  assert.equal((await tollwayCall('--health', '--http', http)).code, 2)
  assert.equal((await tollwayCall('--health', '--http', http, '--wait', '10')).code, 0)
})
