import assert from 'node:assert/strict'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, suite, type TestContext, test } from 'node:test'
import { GrpcError, statusCodes } from '@tollway/grpc/status.ts'
import type { ComparisonReport } from '../../operator/cli/compare/comparison.ts'
import { runCommand } from '../../operator/cli/run-command.ts'
import { missingReference, startReference } from '../differential/start-reference.ts'
import { freePorts } from '../support/free-ports.ts'
import { startProgram } from '../support/program.ts'
import { callRateLimit, startRateLimit } from '../support/rate-limit-process.ts'
import { type RedisServer, startRedis } from '../support/redis-server.ts'
import { missingProgram } from '../support/require-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { type Cleanup, root } from '../support/tollway.ts'

async function compare(...args: string[]) {
  let [out, err] = ['', '']
  const code = await runCommand(['compare', ...args], {
    print: text => {
      out += text
    },
    printError: text => {
      err += text
    },
  })
  return { code, out, err }
}

const request = (user: string, domain = 'shop') => ({
  domain,
  descriptors: [{ entries: [{ key: 'user', value: user }] }],
})

function requestsFile(lines: readonly (object | string)[]): string {
  const file = join(temporaryFolder('compare'), 'requests.jsonl')
  writeFileSync(file, lines.map(line => (typeof line === 'string' ? line : JSON.stringify(line))).join('\n'))
  return file
}

test('invalid input is rejected with the reason', async () => {
  const nowhere = ['--reference', '127.0.0.1:1', '--candidate', '127.0.0.1:1']
  const lines = (...given: (object | string)[]) => [...nowhere, '--requests', requestsFile(given)]
  const table: [string[], RegExp][] = [
    [[], /--reference: must be HOST:PORT, found an empty value/],
    [['--reference', 'here', '--candidate', 'b:1'], /--reference here: must be HOST:PORT/],
    [['--reference', 'a:1', '--candidate', 'b:70000'], /--candidate b:70000: must be HOST:PORT/],
    [nowhere, /give the requests with either --requests or --listen/],
    [[...nowhere, '--requests', 'x', '--listen', 'a:1'], /with either --requests or --listen/],
    [[...nowhere, '--requests', 'x', '--max-different', '-1'], /--max-different/],
    [[...nowhere, '--requests', '/missing.jsonl'], /ENOENT.*missing\.jsonl/],
    [lines(''), /requests\.jsonl: has no requests/],
    [lines(request('a'), '', 'GET / HTTP/1.1'), /requests\.jsonl:3: is not a rate limit request: /],
    [lines(request('a'), { domain: 'shop', descriptors: 7 }), /requests\.jsonl:2: is not .*descriptors/],
    [lines({ descriptors: request('a').descriptors }), /:1: .*domain: must not be empty/],
    [lines({ domain: 'shop' }), /:1: .*descriptors: must not be empty/],
    [lines(request('a'.repeat(1_000_000))), /requests\.jsonl:1: is longer than 1000000 bytes/],
    [lines(request('a')), /--reference 127\.0\.0\.1:1: does not accept connections: ECONNREFUSED/],
    [[...nowhere, '--listen', '127.0.0.1:0'], /--reference 127\.0\.0\.1:1: does not accept connections/],
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

  const start = (t: Cleanup, service: 'reference' | 'candidate', limit: string, keyPrefix = '') => {
    const folder = temporaryFolder('compare-service')
    mkdirSync(join(folder, 'config'))
    const [count, unit] = limit.split('/')
    const rule = `{key: user, rate_limit: {unit: ${unit}, requests_per_unit: ${count}}}`
    const domains = ['shop', 'shared', 'cut'].entries()
    for (const [index, domain] of domains) {
      const text = `domain: ${domain}\ndescriptors: [${rule}]\n`
      writeFileSync(join(folder, 'config', `${index}.yaml`), text)
    }
    const env = {
      RUNTIME_ROOT: folder,
      RUNTIME_WATCH_ROOT: 'false',
      REDIS_SOCKET_TYPE: 'tcp',
      REDIS_URL: `127.0.0.1:${redis.port}`,
      EXPIRATION_JITTER_MAX_SECONDS: '0',
      USE_STATSD: 'false',
      CACHE_KEY_PREFIX: keyPrefix,
    }
    return service === 'reference' ? startReference(t, env) : startCandidate(t, env)
  }

  async function startCandidate(t: Cleanup, env: Readonly<Record<string, string>>) {
    const service = await startRateLimit(t, env)
    await service.serves()
    return service
  }

  const ends = (reference: { grpcPort: number }, candidate: { grpcPort: number }) => [
    '--reference',
    `127.0.0.1:${reference.grpcPort}`,
    '--candidate',
    `127.0.0.1:${candidate.grpcPort}`,
  ]

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
    const same = await compare(...ends(reference, candidate), '--requests', file)
    assert.deepEqual([same.code, same.err], [0, ''], same.out)
    assert.match(same.out, /^51 requests: 51 same, 0 different\n/)

    const others = requestsFile(Array.from({ length: 3 }, () => request('alice')))
    const args = [...ends(reference, stricter), '--requests', others]
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

  test('a proxy forwards answers, errors and health; no candidate fault reaches the callers', async t => {
    const [reference, candidate] = await Promise.all([
      start(t, 'reference', '1000/day', 'pr:'),
      start(t, 'candidate', '1000/day', 'pc:'),
    ])
    const proxy = await startProxy(t, ends(reference, candidate))
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
    assert.equal(await runCommand(health, { print() {}, printError() {} }), 0)

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
    assert.ok(same >= 3, 'the calls before the faults have the same answers')
    assert.ok((report.candidate.errors['UNAVAILABLE'] ?? 0) > 0, JSON.stringify(report.candidate))
    assert.equal(report.reference.errors['UNKNOWN'], 1)
    assert.equal(report.reference.answers, 902)
  })

  test('a migration by shadow, compare, cut over and back keeps the counters of one Redis', async t => {
    const [reference, candidate] = await Promise.all([
      start(t, 'reference', '10/day'),
      start(t, 'candidate', '10/day'),
    ])
    const page = readPage(reference, candidate)
    const replay = await compare(...page.replay)
    assert.equal(replay.code, 0, replay.out)
    assert.match(replay.out, /^3 requests: 3 same, 0 different\n/)
    const counted = Array.from({ length: 12 }, () => request('bob', 'shared'))
    const both = [...ends(reference, candidate), '--shared-counters', '--remaining']
    const near = await compare(...both, '--requests', requestsFile(counted))
    assert.deepEqual([near.code, near.out.split('\n')[0]], [0, '12 requests: 12 same, 0 different'])

    const [left, right] = [callRateLimit(t, reference.grpcPort), callRateLimit(t, candidate.grpcPort)]
    const proxy = await startProxy(t, page.shadow)
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

/** Returns the arguments of the two commands of the page, with the addresses of these services. */
function readPage(reference: { readonly grpcPort: number }, candidate: { readonly grpcPort: number }) {
  const page = readFileSync(join(root, 'docs/tasks/replace-a-rate-limit-service.md'), 'utf8')
  const [, lines = ''] = /```json\n(.*?)```/s.exec(page) ?? []
  const replaced: Readonly<Record<string, string>> = {
    'ratelimit:8081': `127.0.0.1:${reference.grpcPort}`,
    'tollway-ratelimit:8081': `127.0.0.1:${candidate.grpcPort}`,
    'calls.jsonl': requestsFile([lines]),
  }
  const commands = [...page.matchAll(/npx tollway compare (.*?)\n```/gs)].map(([, text = '']) =>
    text.split(/[\s\\]+/).map(word => replaced[word] ?? word),
  )
  const [replay = [], shadow = []] = commands
  assert.ok(replay.includes('--requests') && shadow.includes('--listen') && commands.length === 2)
  return { replay, shadow: shadow.slice(0, shadow.indexOf('--listen')) }
}

/** Starts a proxy as a program. */
async function startProxy(t: TestContext, args: readonly string[]) {
  const [port = 0] = await freePorts(1)
  const listen = ['--listen', `127.0.0.1:${port}`, '-o', 'json', '--timeout', '1']
  const program = startProgram(process.execPath, [
    join(root, 'operator/cli/tollway.ts'),
    'compare',
    ...args,
    ...listen,
  ])
  t.after(() => program.end('SIGKILL'))
  await program.said('listening on 127.0.0.1')
  return {
    port,
    async end() {
      const code = await program.end('SIGTERM')
      const output = program.output()
      const report = JSON.parse(output.slice(output.indexOf('{\n')))
      return { code, report: report as ComparisonReport }
    },
  }
}
