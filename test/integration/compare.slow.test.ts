import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { after, before, suite, test } from 'node:test'
import { GrpcError, statusCodes } from '@tollway/grpc/status.ts'
import type { ComparisonReport } from '../../operator/cli/compare/comparison.ts'
import { runTollway } from '../../operator/cli/tollway-program.ts'
import { missingReference } from '../differential/start-reference.ts'
import {
  type ComparedService,
  compare,
  pageCommands,
  peersOf,
  request,
  requestsFile,
  startCompared,
  startCompareProxy,
} from '../support/compare-command.ts'
import { callRateLimit } from '../support/rate-limit-process.ts'
import { type RedisServer, startRedis } from '../support/redis-server.ts'
import { missingProgram } from '../support/require-server.ts'
import { childrenOf, isRunning } from '../support/running-processes.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import type { Cleanup } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

test('invalid input is rejected with the reason', async () => {
  const nowhere = ['--reference', '127.0.0.1:1', '--candidate', '127.0.0.1:1']
  const lines = (...given: (object | string)[]) => [...nowhere, '--requests', requestsFile(given)]
  const table: [string[], RegExp][] = [
    [[], /missing option --reference HOST:PORT/],
    [['--reference', 'here', '--candidate', 'b:1'], /--reference here: must be HOST:PORT/],
    [['--reference', 'a:1', '--candidate', 'b:70000'], /--candidate b:70000: must be HOST:PORT/],
    [nowhere, /exactly one of --requests and --listen is required/],
    [[...nowhere, '--requests', 'x', '--listen', 'a:1'], /exactly one of --requests and --listen/],
    [[...nowhere, '--requests', 'x', '--max-different', '-1'], /--max-different/],
    [[...nowhere, '--requests', '/missing.jsonl'], /\/missing\.jsonl: no such file\n$/],
    [[...nowhere, '--requests', temporaryFolder('requests')], /\/requests-\w+: EISDIR: .* directory/],
    [lines('\0\xff'), /requests\.jsonl:1: is not a rate limit request: /],
    [lines(''), /requests\.jsonl: no requests found/],
    [lines(request('a'), '', 'GET / HTTP/1.1'), /requests\.jsonl:3: is not a rate limit request: /],
    [lines(request('a'), { domain: 'shop', descriptors: 7 }), /requests\.jsonl:2: is not .*descriptors/],
    [lines({ descriptors: request('a').descriptors }), /:1: .*domain: must not be empty/],
    [lines({ domain: 'shop' }), /:1: .*descriptors: must not be empty/],
    [lines(request('a'.repeat(1_000_000))), /requests\.jsonl:1: the line is longer than 1000000 bytes/],
    [lines(request('a')), /--reference 127\.0\.0\.1:1: connection refused$/m],
    [[...nowhere, '--listen', '127.0.0.1:0'], /--reference 127\.0\.0\.1:1: connection refused/],
  ]
  for (const [args, pattern] of table) {
    const { code, out, err } = await compare(...args)
    assert.deepEqual([code, out], [2, ''], args.join(' '))
    assert.match(err, pattern)
  }
})

const missing = missingReference() || missingProgram('redis-server')

suite('compare with the real reference', { skip: missing }, () => {
  let redis: RedisServer
  before(async () => {
    redis = await startRedis()
  })
  after(() => redis.stop())

  const start = (t: Cleanup, kind: ComparedService['kind'], limit: string, keyPrefix = '') =>
    startCompared(t, { kind, limit, redisPort: redis.port, env: { CACHE_KEY_PREFIX: keyPrefix } })

  const shortCalls = (count: number, domain?: string) =>
    Array.from({ length: count }, (_, index) => request(`user-${index % 7}`, domain))

  test('equal answers exit with 0; other limits are reported by descriptor and exit with 1', async t => {
    const [reference, candidate, stricter] = await Promise.all([
      start(t, 'reference', '5/day', 'r:'),
      start(t, 'candidate', '5/day', 'c:'),
      start(t, 'candidate', '2/day', 's:'),
    ])
    const long = request('b'.repeat(900_000))
    const file = requestsFile([...shortCalls(50), long])
    const same = await compare(...peersOf(reference, candidate), '--requests', file)
    assert.deepEqual([same.code, same.err], [0, ''], same.out)
    assert.match(same.out, /^51 requests: 51 same, 0 different\n/)

    const others = requestsFile(Array.from({ length: 3 }, () => request('alice')))
    const args = [...peersOf(reference, stricter), '--requests', others]
    const { code, out } = await compare(...args, '-o', 'json')
    const report = JSON.parse(out) as ComparisonReport
    assert.equal(code, 1)
    assert.deepEqual([report.same, report.different, report.decidedByBoth], [0, 3, 3])
    assert.deepEqual(report.descriptors, [
      { descriptor: 'shop: user=alice', different: 3, fields: { code: 1, limit: 3 } },
      { descriptor: 'shop: whole answer', different: 1, fields: { overallCode: 1 } },
    ])
    assert.deepEqual(report.examples[0], {
      place: 'line 1',
      descriptor: 'shop: user=alice',
      field: 'limit',
      reference: '5/DAY',
      candidate: '2/DAY',
    })
    const limits = report.examples.filter(({ field }) => field === 'limit')
    assert.equal(limits.length, 2, 'one field has at most two examples')
    assert.equal((await compare(...args, '--max-different', '3')).code, 0)
    assert.match((await compare(...args)).out, /shop: user=alice +3 +/)
  })

  test('services that do not answer end a run with the reason and exit code 2', async t => {
    const [reference, stopped] = await Promise.all([
      start(t, 'reference', '1000/day', 'er:'),
      start(t, 'candidate', '1000/day', 'es:'),
    ])
    const silent = await startSilentServer(t)
    const file = requestsFile(shortCalls(30))
    const replayTo = (port: number) =>
      compare(...peersOf(reference, { grpcPort: port }), '--requests', file, '--timeout', '0.05')
    const unanswered = await replayTo(silent)
    assert.equal(unanswered.code, 2)
    assert.match(unanswered.out, /^20 requests: 0 same, \d+ different/)
    assert.match(unanswered.err, /line 20: the candidate answered none of 20 requests: /)

    const http = await compare(...peersOf(reference, { grpcPort: reference.httpPort }), '--requests', file)
    assert.match(
      http.err,
      /--candidate 127.* is not a gRPC port: the answer is not HTTP\/2: HTTP\/1\.1 \d+ \w+.*$/m,
    )
    stopped.program.process.kill('SIGSTOP')
    const nothing = await replayTo(stopped.grpcPort)
    stopped.program.process.kill('SIGCONT')
    assert.match(nothing.err, /--candidate 127.* is not a gRPC port: no answer within 3000 ms/)
    assert.deepEqual([http.code, nothing.code], [2, 2])

    const toSilent = [...peersOf(reference, { grpcPort: silent }), '--listen', '127.0.0.1:0']
    const idle = await compare(...toSilent, '--duration', '0.1')
    assert.equal(idle.code, 2)
    assert.match(idle.err, /listening on 127.*no request was answered by both services/s)
  })

  test('a proxy forwards answers, errors and health; no candidate fault reaches the callers', async t => {
    const [reference, candidate] = await Promise.all([
      start(t, 'reference', '1000/day', 'pr:'),
      start(t, 'candidate', '1000/day', 'pc:'),
    ])
    const proxy = await startCompareProxy(t, peersOf(reference, candidate))
    const direct = callRateLimit(t, reference.grpcPort)
    const { shouldRateLimit } = callRateLimit(t, proxy.port)
    const answer = await shouldRateLimit(request('alice'))
    assert.equal(answer.statuses[0]?.currentLimit?.requestsPerUnit, 1000)
    await shouldRateLimit(request('b'.repeat(1_000_000)))
    const [expected, found] = await Promise.all(
      [direct.shouldRateLimit, shouldRateLimit].map(ask => ask(request('a', '')).catch(error => error)),
    )
    assert.ok(expected instanceof GrpcError && found instanceof GrpcError)
    assert.deepEqual([found.message, found.code], [expected.message, expected.code])
    const health = ['call', '--health', '--grpc', `127.0.0.1:${proxy.port}`]
    assert.equal(await runTollway(health, { print() {}, printError() {} }), 0)

    const compared = async () => {
      const stats = await fetch(`http://127.0.0.1:${candidate.debugPort}/stats?format=json`)
      const counts = (await stats.json()) as Record<string, number>
      return (counts['ratelimit_server.ShouldRateLimit.total_requests'] ?? 0) >= 3
    }
    await waitFor('the candidate to decide the three calls', compared)
    for (const signal of ['SIGSTOP', 'SIGCONT', 'SIGKILL'] as const) {
      candidate.program.process.kill(signal)
      const answers = await Promise.all(
        Array.from({ length: 300 }, (_, index) =>
          shouldRateLimit(request(`${signal}-${index}`), { timeoutMs: 5_000 }),
        ),
      )
      assert.equal(answers.length, 300)
    }
    await reference.program.end('SIGKILL')
    await assert.rejects(shouldRateLimit(request('alice')), { code: statusCodes.UNAVAILABLE })
    const { code, report } = await proxy.end()
    assert.equal(code, 1, 'a candidate that does not answer differs')
    const { same, different, notCompared, dropped } = report
    assert.equal(same + different + dropped, 903)
    assert.ok(notCompared <= 1, 'the call after the end of the reference may not have reached the proxy')
    assert.ok(same >= 3, JSON.stringify(report))
    assert.ok((report.candidate.errors['UNAVAILABLE'] ?? 0) > 0, JSON.stringify(report.candidate))
    assert.equal(report.reference.errors['UNKNOWN'], 1)
    assert.equal(report.reference.answers, 902)
  })

  test('a proxy serves without the process that compares, and that one does not outlive it', async t => {
    const service = await start(t, 'candidate', '1000/day', 'kp:')
    const args = peersOf(service, service)
    const proxy = await startCompareProxy(t, args)
    const { shouldRateLimit } = callRateLimit(t, proxy.port)
    await shouldRateLimit(request('alice'))
    for (const pid of childrenOf(proxy.program.pid)) process.kill(pid, 'SIGKILL')
    const said = 'its process has ended with SIGKILL; calls still go to the reference'
    await proxy.program.said(said)
    await shouldRateLimit(request('alice'))
    assert.equal(await proxy.program.end('SIGTERM'), 2)

    const killed = await startCompareProxy(t, args)
    const comparing = childrenOf(killed.program.pid)
    assert.equal(comparing.length, 1)
    killed.program.process.kill('SIGKILL')
    await waitFor('the process that compares to end', () => !comparing.some(isRunning))
  })

  test('a migration by shadow, compare, cut over and back keeps the counters of one Redis', async t => {
    const [reference, candidate] = await Promise.all([
      start(t, 'reference', '10/day'),
      start(t, 'candidate', '10/day'),
    ])
    const [replayed = [], shadowing = []] = pageCommands({
      'ratelimit:8081': `127.0.0.1:${reference.grpcPort}`,
      'tollway-ratelimit:8081': `127.0.0.1:${candidate.grpcPort}`,
    })
    const replay = await compare(...replayed)
    assert.equal(replay.code, 0, replay.out)
    assert.match(replay.out, /^3 requests: 3 same, 0 different\n/)
    const counted = Array.from({ length: 12 }, () => request('bob', 'shared'))
    const both = [...peersOf(reference, candidate), '--shared-counters', '--remaining']
    const near = await compare(...both, '--requests', requestsFile(counted))
    assert.deepEqual([near.code, near.out.split('\n')[0]], [0, '12 requests: 12 same, 0 different'])

    const [left, right] = [callRateLimit(t, reference.grpcPort), callRateLimit(t, candidate.grpcPort)]
    const proxy = await startCompareProxy(t, shadowing)
    const through = callRateLimit(t, proxy.port)
    const remaining = async (service: typeof left) => {
      const { statuses } = await service.shouldRateLimit(request('alice', 'cut'))
      return statuses[0]?.limitRemaining
    }
    assert.equal(await remaining(left), 9)
    const shadowed = [await remaining(through), await remaining(through), await remaining(through)]
    assert.deepEqual(shadowed, [8, 7, 6], 'a shadowed call counts once')
    const { code, report } = await proxy.end()
    assert.deepEqual([code, report.same, report.different], [0, 3, 0], JSON.stringify(report))
    assert.deepEqual([await remaining(right), await remaining(right)], [5, 4], 'cut over')
    assert.deepEqual([await remaining(left), await remaining(left)], [3, 2], 'gone back')
  })
})

/** Starts a server that begins HTTP/2 and then answers nothing. */
async function startSilentServer(t: Cleanup): Promise<number> {
  const settings = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0])
  const sockets = new Set<Socket>()
  const server = createServer(socket => {
    sockets.add(socket)
    socket.on('error', () => {}).resume()
    socket.write(settings)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  t.after(async () => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  return (server.address() as AddressInfo).port
}
