import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { CORE_SCHEMA, loadAll } from 'js-yaml'
import { runTollway } from '../../operator/cli/tollway-program.ts'
import { freePorts } from '../support/free-ports.ts'
import { programs } from '../support/programs.ts'
import { runCaptured } from '../support/run-captured.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { manifest, root } from '../support/tollway.ts'

interface Outcome {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

function runIn(cwd: string, command: string, args: readonly string[]): Outcome {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: 'utf8', timeout: 30_000 })
  return { code: status, out: stdout, err: stderr }
}

/** Runs the program in this process with these arguments, which saves its start. */
const inThisProcess = (...args: string[]): Promise<Outcome> => runCaptured(output => runTollway(args, output))

/** A folder with these files, and `tollway` in it. */
function openFolder(files: Readonly<Record<string, string>>) {
  const folder = temporaryFolder('cli')
  const write = (file: string, text: string) => {
    mkdirSync(dirname(join(folder, file)), { recursive: true })
    writeFileSync(join(folder, file), text)
  }
  for (const [file, text] of Object.entries(files)) write(file, text)
  return {
    folder,
    write,
    tollway: (...args: string[]) => runIn(folder, process.execPath, [programs.tollway, ...args]),
  }
}

const wrongFolder = {
  'm/a.yaml': manifest('a', 'shop', { user: '3/fortnight', path: '4294967296/day' }),
  'm/b.yaml': 'apiVersion: tollway.dev/v1alpha1\nkind: [',
  'm/c.yaml': manifest('c', 'search', { user: '1/day' }),
  'm/sub/d.yaml': manifest('d', 'search', { user: '2/day' }),
  'm/e.yaml': manifest('e', 'e', { user: '1/day' }).replace('RateLimitConfig', 'RateLimitConfg'),
  'm/f.yaml': manifest('f', '"f\\e[2J"', { user: '1/day', user_id: '1/day' }),
  'm/g.yaml': manifest('g', '"f\\e[2J"', { user: '1/day', user_id: '1/day' }).replace(
    'key: user,',
    'key: user, value: id,',
  ),
}

test('validate reports all problems of all files, as text and as JSON', () => {
  const { tollway } = openFolder(wrongFolder)
  const { code, out, err } = tollway('validate', '-f', 'm')
  assert.equal(code, 1, err)
  const patterns = [
    /^a\.yaml: RateLimitConfig default\/a: spec\.descriptors\[0]\.rateLimit\.unit: "fortnight" is not /m,
    /^a\.yaml: RateLimitConfig default\/a: spec\.descriptors\[1]\.rateLimit\.requestsPerUnit: 4294967296/m,
    /^b\.yaml: line 2, column \d+: /m,
    /^e\.yaml: RateLimitConfg default\/e: there is no kind RateLimitConfg; there are RateLimitConfig, \w+, \w+$/m,
    /^\S+: .* spec\.domain: "search" belongs to default\/[cd], .*; default\/[cd] is declared in \S+\.yaml$/m,
    /^warning: f\.yaml: RateLimitConfig default\/f: spec\.descriptors\[1]: .*the same cache key/m,
    /^g\.yaml: RateLimitConfig default\/g: .* composite key 'f\\u\{1b}\[2J\.user_id'/m,
  ]
  for (const pattern of patterns) assert.match(out, pattern)
  assert.equal(out.trimEnd().split('\n').length, patterns.length)

  const json = tollway('validate', '-f', 'm', '-o', 'json')
  assert.equal(json.code, 1)
  const findings = JSON.parse(json.out) as Record<string, string>[]
  assert.equal(findings.length, patterns.length)
  const unit = findings.find(({ path }) => path === 'spec.descriptors[0].rateLimit.unit')
  assert.deepEqual(
    { ...unit, message: '' },
    {
      severity: 'error',
      origin: 'a.yaml',
      resource: 'RateLimitConfig default/a',
      path: 'spec.descriptors[0].rateLimit.unit',
      message: '',
    },
  )
})

test('validate warns of values that cannot match as meant, and names the way to write them', async () => {
  const rule = (key: string, value: string) =>
    `{key: ${key}, value: '${value}', rateLimit: {unit: minute, requestsPerUnit: 1}}`
  const rules = [
    rule('remote_address', '10.0.0.0/8'),
    rule('path', '^/api/v[0-9]+/.*$'),
    rule('authorization', 'bearer *'),
    rule('path', '/api/*'),
    rule('masked_remote_address', '10.0.0.0/8'),
  ]
  const { folder } = openFolder({
    'a.yaml': `${manifest('a', 'shop', {}).split('spec:')[0]}spec: {domain: shop, descriptors: [${rules.join(', ')}]}\n`,
  })
  const { code, out } = await inThisProcess('validate', '-f', join(folder, 'a.yaml'))
  assert.equal(code, 0, out)
  const at = (index: number) =>
    `warning: a.yaml: RateLimitConfig default/a: spec.descriptors[${index}].value: `
  const lines = out.split('\n')
  assert.ok(lines[0]?.startsWith(`${at(0)}"10.0.0.0/8" matches only this text`), out)
  assert.match(lines[0] ?? '', /write match: \{cidr: \["10\.0\.0\.0\/8"\]\}/)
  assert.ok(lines[1]?.startsWith(`${at(1)}"^/api/v[0-9]+/.*$" is compared as text`), out)
  assert.match(lines[1] ?? '', /write "\/api\/v\*\/\*"/)
  assert.ok(lines[2]?.startsWith(`${at(2)}"bearer *" does not match "Bearer …"`), out)
  assert.equal(lines.length, 5, out)
})

test('a misspelled value of a field has the one that was meant', async () => {
  const { folder } = openFolder({ 'a.yaml': manifest('a', 'shop', { user: '3/MINUTE' }) })
  const { out } = await inThisProcess('validate', '-f', folder)
  assert.match(out, /unit: "MINUTE" is not one of second, .*; did you mean minute\?\n/)
})

test('a file of envoyproxy/ratelimit among manifests names the commands for it', async () => {
  const { folder } = openFolder({ 'reference.yaml': configuration('shop', '5') })
  const { code, out } = await inThisProcess('validate', '-f', folder)
  assert.equal(code, 1)
  assert.match(
    out,
    /^reference\.yaml: is a configuration file of envoyproxy\/ratelimit, not a resource: .*tollway convert FILE.*tollway config-check --config-dir DIR$/m,
  )
})

test('validate accepts valid folders and single files, and reports a folder without resources', async () => {
  const { folder, tollway } = openFolder({
    'm/a.yaml': manifest('a', 'shop', { user: '3/day' }),
    'other/deployment.yaml': 'apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n',
  })
  const right = { code: 0, out: '1 resource, no problem\n', err: '' }
  assert.deepEqual(tollway('validate', '-f', 'm'), right)
  assert.deepEqual(await inThisProcess('validate', '-f', join(folder, 'm/a.yaml')), right)
  assert.equal(tollway('validate', '-f', 'm', '-o=json').out, '[]\n')
  const other = join(folder, 'other')
  const kinds = 'RateLimitConfig, AnimationStreamRoute, Merchant'
  const message = `${other}: no resource found: expected ${kinds} in a .yaml or .yml file\n`
  assert.deepEqual(await inThisProcess('validate', '-f', other), { code: 1, out: message, err: '' })
  assert.equal((await inThisProcess('validate', '-f', join(folder, 'missing'))).code, 2)
  const none = tollway('validate')
  assert.equal(none.code, 2)
  assert.match(none.err, /missing option --file: no operator has run with the state in \.tollway/)
})

test('translate prints what the feed would publish, and reports what it leaves out', () => {
  const { tollway } = openFolder(wrongFolder)
  const { code, out, err } = tollway('translate', '-f', 'm', '-o', 'json')
  assert.equal(code, 0)
  assert.match(err, /fortnight/)
  const { version, typeUrl, resources } = JSON.parse(out)
  assert.match(version, /^[0-9a-f]{32}$/)
  assert.equal(typeUrl, 'type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig')
  assert.deepEqual(
    resources.map((resource: { name: string }) => resource.name).filter((name: string) => /[cd]$/.test(name))
      .length,
    1,
    'a domain is carried once',
  )
  assert.deepEqual(resources.at(-1).name, 'default/f')
  assert.equal(resources.at(-1).descriptors[0].rateLimit.requestsPerUnit, 1)
  assert.match(
    tollway('translate', '-f', 'm', '-o', 'table').out,
    new RegExp(`^version ${version}\nRESOURCE`),
  )

  const empty = openFolder({ 'm/note.txt': '' }).tollway('translate', '-f', 'm', '-o', 'table')
  assert.equal(empty.code, 1)
  assert.match(empty.err, /^m: no resource found: expected RateLimitConfig/)
})

const quotas = `apiVersion: tollway.dev/v1alpha1
kind: RateLimitConfig
metadata: {name: quotas}
spec:
  domain: quotas
  descriptors:
    - key: plan
      value: free
      descriptors: [{key: user, rateLimit: {unit: second, requestsPerUnit: 200, delivery: Quota}}]
    - {key: path, rateLimit: {unit: second, requestsPerUnit: 200}}
`

test('translate prints the quota filter of Envoy', async () => {
  const { folder } = openFolder({ 'm/a.yaml': quotas, 'n/a.yaml': quotas.replace(', delivery: Quota', '') })
  const translate = (...args: string[]) => inThisProcess('translate', '-o', 'envoy-quota', '-f', ...args)
  const { code, out, err } = await translate(join(folder, 'm'), '--header', 'user=x-user')
  assert.deepEqual([code, err], [0, ''])
  assert.match(out, /^- name: envoy\.filters\.http\.rate_limit_quota\n/)
  assert.match(out, /header_name: x-user\n/)
  const none = await translate(join(folder, 'n'))
  assert.deepEqual([none.code, none.out, none.err], [1, '', 'no rule has delivery: Quota\n'])
  const wrong = await translate(join(folder, 'm'), '--header', 'user')
  assert.equal(wrong.code, 2)
  assert.match(wrong.err, /--header user: expected KEY=HEADER, such as user=x-user/)
})

test('try shows the limit of a bucket, in any order of its entries', async () => {
  const { folder } = openFolder({ 'm/a.yaml': quotas })
  const attempt = (...args: string[]) =>
    inThisProcess('try', '-f', join(folder, 'm'), '-d', 'quotas', ...args)
  const bucket = await attempt('-e', 'plan=free,user=alice', '--bucket', 'user=alice,plan=free')
  assert.equal(bucket.code, 0)
  assert.match(bucket.out, /=> quotas\.plan_free\.user: 200\/second\n.*\n? *delivery: Quota: proxies/)
  assert.equal(bucket.out.match(/^plan=free user=alice$/gm)?.length, 2)
  const called = await attempt('--bucket', 'path=/')
  assert.equal(called.code, 1)
  assert.match(called.out, /=> no share: quotas\.path does not have delivery: Quota/)
  const { err } = await attempt('--bucket', 'path')
  assert.match(err, /--bucket path: "path" is not KEY=VALUE/)
})

test('try prints which rule matches, or why none does', async () => {
  const text = manifest('a', 'shop', { user: '3/day' })
  const { folder, tollway, write } = openFolder({ 'm/a.yaml': text })
  const found = tollway('try', '-f', 'm', '-d', 'shop', '-e', 'user=alice')
  assert.equal(found.code, 0, found.err)
  assert.match(found.out, /user=alice {2}any value match of shop\.user\n {2}=> shop\.user: 3\/day/)

  const attempt = (domain: string, ...args: string[]) =>
    inThisProcess('try', '-f', join(folder, 'm'), '-d', domain, ...args)
  const comma = await attempt('shop', '-e', 'user=a\\,b=c,plan=free')
  assert.equal(comma.code, 1)
  assert.match(comma.out, /user=a,b=c {2}any value.*\n {2}plan=free {2}stopped: /)
  const unknown = await attempt('other', '-e', 'a=b')
  assert.match(unknown.out, /domain 'other' unknown; there are: shop/)
  const explained = JSON.parse((await attempt('shop', '-e', 'user=alice', '-e', 'path=/', '-o', 'json')).out)
  assert.deepEqual([explained[0].limit.requestsPerUnit, explained[1].limit], [3, undefined])

  write('m/a.yaml', text.replace('key: user', 'kye: user'))
  const broken = await attempt('shop', '-e', 'user=alice')
  assert.equal(broken.code, 1)
  assert.match(broken.err, /kye: no such field; did you mean key/)
  assert.match(broken.out, /domain 'shop' unknown; there are none/)
})

const configuration = (domain: string, requests: string) => `domain: ${domain}
descriptors:
  - {key: user, rate_limit: {unit: minute, requests_per_unit: ${requests}}}
`

test('convert makes valid resources with the same meaning', () => {
  const { tollway, write } = openFolder({
    'config/a.yaml': configuration('mongo_cps', '5'),
    'config/sub/b.yml': configuration('mongo-cps', '6'),
    'config/note.txt': 'not a configuration',
  })
  const { code, out, err } = tollway('convert', 'config', '-n', 'shop')
  assert.equal(code, 0, err)
  const documents = loadAll(out, { schema: CORE_SCHEMA }) as { metadata: object; spec: { domain: string } }[]
  assert.deepEqual(
    documents.map(({ metadata, spec }) => [metadata, spec.domain]),
    [
      [{ name: 'mongo-cps', namespace: 'shop' }, 'mongo_cps'],
      [{ name: 'mongo-cps-2', namespace: 'shop' }, 'mongo-cps'],
    ],
  )
  write('limits/all.yaml', out)
  assert.equal(tollway('validate', '-f', 'limits').out, '2 resources, no problem\n')
  assert.match(tollway('try', '-f', 'limits', '-d', 'mongo-cps', '-e', 'user=a').out, /6\/minute/)
  assert.equal(tollway('convert', 'config/a.yaml', '-o', 'json').out.startsWith('{'), true)
})

test('convert reports every problem, and then prints no resource', () => {
  const { tollway } = openFolder({
    'a.yaml': configuration('a', '5').replace('minute', 'minuet'),
    'b.yaml': configuration('b', 'many'),
    'c.yaml': configuration('c', '5'),
    'same.yaml': configuration('c', '5'),
    'long.yaml': configuration('d'.repeat(254), '5'),
    'empty/note.txt': '',
  })
  const wrong = tollway('convert', 'a.yaml', 'b.yaml', 'c.yaml', 'same.yaml')
  assert.deepEqual([wrong.code, wrong.out], [1, ''])
  assert.match(wrong.err, /^a\.yaml: invalid rate limit unit 'minuet'/m)
  assert.match(wrong.err, /^b\.yaml: .*'many'/m)
  assert.match(wrong.err, /^same\.yaml: duplicate domain 'c'/m)
  const long = tollway('convert', 'long.yaml')
  assert.deepEqual([long.code, long.out], [1, ''])
  assert.match(long.err, /^long\.yaml: .* has 254 characters; .* \(at spec\.domain\)/m)
  assert.match(tollway('convert', 'empty').err, /empty: no \.yaml/)
})

test('config-check validates the files of a rate limit service', async () => {
  const { folder } = openFolder({
    'right/a.yaml': configuration('a', '5'),
    'wrong/a.yaml': configuration('a', 'many'),
  })
  const right = await inThisProcess('config-check', '--config-dir', join(folder, 'right'))
  assert.deepEqual(right, { code: 0, out: 'all rate limit configs ok: 1 file, 1 domain\n', err: '' })
  const wrong = await inThisProcess('config-check', '-config_dir', join(folder, 'wrong'))
  assert.equal(wrong.code, 1)
  assert.match(wrong.out, /wrong\/a\.yaml: .*'many' \(at descriptors\[0]\.rate_limit\.requests_per_unit/)
})

test('an unknown command, option or value is a usage error', async () => {
  const { tollway } = openFolder({})
  const table: [string[], RegExp][] = [
    [
      ['vaildate'],
      /^tollway: unknown command "vaildate" \(did you mean "validate"\?\)\nRun 'tollway --help' for usage\.\n$/,
    ],
    [['toString'], /^tollway: unknown command "toString"\nRun/],
    [['--folder', 'x'], /^tollway: unknown option --folder\nRun 'tollway --help' for usage\.\n$/],
    [['help', 'vaildate'], /^tollway: unknown command "vaildate"/],
    [
      ['validate', '--fiel', '.'],
      /^tollway validate: unknown option --fiel \(did you mean --file\?\)\nRun 'tollway validate --help' for usage\.\n$/,
    ],
    [['streams'], /^tollway streams: missing subcommand: list, watch or interrupt\n/],
    [['counters', 'gte'], /^tollway counters: unknown subcommand "gte" \(did you mean "get"\?\)\n/],
    [['payments', 'exception'], /^tollway payments: missing subcommand: retry or close\n/],
    [['payments', 'verfy'], /^tollway payments: unknown subcommand "verfy" \(did you mean "verify"\?\)\n/],
    [['payments', 'payout', '--perod', 'a'], /unknown option --perod \(did you mean --period\?\)\n/],
    [['validate', '-f', '.', '-o', 'xml'], /--output xml: must be one of table, yaml, json/],
    [['try', '-f', '.', '-e', 'user=alice'], /missing option --domain\n/],
    [['try', '-f', '.', '-d', 'shop'], /missing option --entries KEY=VALUE\n/],
    [['try', '-f', '.', '-d', 'shop', '-e', 'user'], /"user" is not KEY=VALUE/],
    [['try', '-f', '.', '-d', 'shop', '-e', ''], /"" is not KEY=VALUE/],
    [['status', '--wait', 'abc'], /--wait abc: must be a number of seconds/],
    [['status', '--state-dir', '/missing'], /no operator runs with the state in \/missing/],
    [['convert'], /missing argument PATH/],
    [['convert', '.', '-o', 'table'], /must be one of yaml, json/],
    [['config-check'], /missing option --config-dir/],
    [['config-check', '-config_dir', 'x', '-merge'], /unknown option -m\n/],
    [['run'], /missing option --file/],
  ]
  for (const [args, pattern] of table) {
    const { code, out, err } = await inThisProcess(...args)
    assert.deepEqual([code, out], [2, ''], args.join(' '))
    assert.match(err, pattern)
  }
  assert.equal(tollway('status').code, 2)
  assert.equal(tollway('status', '--wait', 'abc').code, 2)
})

test('a missing file has the exit code 2 in every command, and one text', async () => {
  const { folder } = openFolder({})
  const cluster = ['--address', 'https://127.0.0.1:1']
  const compared = ['--reference', '127.0.0.1:1', '--candidate', '127.0.0.1:2']
  for (const [args, named] of [
    [['validate', '-f', '/missing'], '--file /missing: no such file or folder'],
    [['translate', '-f', '/missing'], '--file /missing: no such file or folder'],
    [['diff', '-f', '/missing'], '--file /missing: no such file or folder'],
    [['try', '-f', '/missing', '-d', 'a', '-e', 'b=c'], '--file /missing: no such file or folder'],
    [['whatif', '-f', '/missing'], '--file /missing: no such file'],
    [['run', '-f', '/missing'], '--file /missing: no such file or folder'],
    [['run', '-f', folder, '--config', '/missing'], '--config /missing: no such file'],
    [['convert', '/missing'], '/missing: no such file or folder'],
    [['config-check', '--config-dir', '/missing'], '--config-dir /missing: no such folder'],
    [['compare', ...compared, '--requests', '/missing'], '/missing: no such file'],
    [['operator', '--config', '/missing'], '--config /missing: no such file'],
    [['streams', 'list', ...cluster, '--ca', '/missing'], '--ca /missing: no such file'],
    [
      ['counters', 'tap', '-d', 'a', '--operator', 'http://127.0.0.1:1', '--token-file', '/missing'],
      '--token-file /missing: no such file',
    ],
  ] as const)
    assert.deepEqual(await inThisProcess(...args), {
      code: 2,
      out: '',
      err: `tollway ${args[0]}: ${named}\n`,
    })
})

test('a connection that fails is named by its address and its cause', async () => {
  const [port = 0] = await freePorts(1)
  const at = `http://127.0.0.1:${port}`
  for (const [args, said] of [
    [['status', '--operator', at], `${at}: connection refused`],
    [['counters', 'top', '-d', 'a', '--rule', 'a.b', '--operator', at], `${at}: connection refused`],
    [['streams', 'list', '--address', at], `${at}: connection refused`],
    [['call', '--health', '--http', at], `${at}: connection refused`],
    [['status', '--operator', 'http://nothing.invalid'], 'http://nothing.invalid: host not found'],
  ] as const) {
    const { code, err } = await inThisProcess(...args)
    assert.equal(code, 2, err)
    assert.ok(err.includes(said), err)
  }
})

test('the version of the command is printed, and of no operator if none runs', async () => {
  const { version } = JSON.parse(readFileSync(join(root, 'operator/package.json'), 'utf8'))
  assert.deepEqual(await inThisProcess('--version'), { code: 0, out: `tollway ${version}\n`, err: '' })
  const table = await inThisProcess('version', '--state-dir', '/missing')
  assert.equal(table.code, 0, table.err)
  assert.match(table.out, new RegExp(`^PART +NAME +VERSION +IMAGE\\nclient +node \\S+ +${version}\\n$`))
  const json = await inThisProcess('version', '--state-dir', '/missing', '-o=json')
  const client = { version, node: process.version }
  assert.deepEqual(JSON.parse(json.out), { client, operators: [], services: [], definitions: [] })
})

test('help of a command is printed in every spelling', async () => {
  const help = await inThisProcess('run', '--help')
  assert.match(help.out, /^Usage: tollway run /)
  for (const args of [
    ['run', '-h'],
    ['help', 'run'],
    ['--help', 'run'],
  ])
    assert.deepEqual(await inThisProcess(...args), help)
  const { out } = await inThisProcess('help', 'counters', 'get')
  assert.match(out, /^Usage: tollway counters get /)
})

test('run reports every wrong option and every wrong field, with its file', async () => {
  const { folder, tollway } = openFolder({
    'm/a.yaml': manifest('a', 'shop', { user: '3/day' }),
    'wrong.yaml': 'grpcPort: many\nrateLimitEnv: {NEAR_LIMIT_RATIO: 7}\nreplica: 2\n',
    'broken.yaml': 'host: "x\nredisUrl: redis://user:hunter2@host\n',
  })
  const wrong = tollway('run', '-f', 'm', '--config', 'wrong.yaml', '--http-port', '0')
  assert.equal(wrong.code, 2)
  for (const pattern of [
    /wrong\.yaml: grpcPort: "many" is not a whole number from 1 to 65535/,
    /wrong\.yaml: rateLimitEnv: NEAR_LIMIT_RATIO: "7" is not allowed: a number from 0 to 1/,
    /wrong\.yaml: replica: there is no such field/,
    /--http-port: "0" is not a whole number from 1 to 65535/,
  ]) {
    assert.match(wrong.err, pattern)
  }
  const table: [string[], RegExp][] = [
    [['--config', join(folder, 'missing.yaml')], /missing\.yaml: no such file\n$/],
    [['--config', join(folder, 'm')], /m: EISDIR/],
    [['--config', join(folder, 'broken.yaml')], /broken\.yaml: line 2: /],
    [['--env', 'NEAR'], /--env NEAR: must be NAME=VALUE/],
    [['--env', 'NEAR_LIMT_RATIO=1'], /--env: NEAR_LIMT_RATIO: there is no such setting/],
    [['--env', 'REDIS_AUTH=hunter2'], /--env REDIS_AUTH: every user of the machine could read it/],
    [['--broker-env', 'MAX_PULLS=many'], /--broker-env: MAX_PULLS: "many" is not allowed: a whole number/],
    [['--broker-env', 'REDIS_URL=redis://:hunter2@host'], /it; put it under brokerEnv into --config FILE/],
    [['--broker-replicas', '-1'], /--broker-replicas/],
    [['--redis-url', 'redis://user:hunter2@host'], /every user of the machine could read the password/],
  ]
  for (const [args, pattern] of table) {
    const { code, out, err } = await inThisProcess('run', '-f', folder, ...args)
    assert.equal(code, 2, args.join(' '))
    assert.match(err, pattern)
    assert.doesNotMatch(out + err, /hunter2/)
  }
})

test('every command has a help with examples', async () => {
  const { tollway } = openFolder({})
  const help = tollway('--help')
  assert.equal(help.code, 0)
  const names = [...help.out.matchAll(/^ {2}([\w-]+) {2,}/gm)].map(match => match[1] ?? '')
  assert.deepEqual(names, [
    'run',
    'validate',
    'translate',
    'diff',
    'status',
    'try',
    'counters',
    'whatif',
    'streams',
    'collect',
    'call',
    'compare',
    'convert',
    'payments',
    'operator',
    'removal',
    'config-check',
    'version',
    'completion',
  ])
  for (const name of names) {
    const { code, out, err } = await inThisProcess(name, '--help')
    assert.deepEqual([code, err], [0, ''])
    assert.match(out, new RegExp(`^Usage: tollway ${name} `))
    assert.match(out, new RegExp(`Exit code: .*\n\nExamples:\n  tollway ${name}`))
    for (const line of out.split('\n')) assert.ok(line.length <= 120, `${name}: ${line}`)
  }
  assert.deepEqual(await inThisProcess(), { ...help, code: 2 })
})

test('a reader that closes the pipe causes no error', () => {
  const { folder } = openFolder({ 'm/a.yaml': manifest('a', 'shop', { user: '3/day' }) })
  const translate = `"${process.execPath}" "${programs.tollway}" translate -f m`
  const command = `${translate} | true; echo "\${PIPESTATUS[0]}"`
  assert.deepEqual(runIn(folder, 'bash', ['-c', command]), { code: 0, out: '0\n', err: '' })
})

/** The path of the machine's own Node, if it is too old to run the code. */
function oldNode(t: TestContext): string | undefined {
  const node = '/usr/bin/node'
  const { stdout } = spawnSync(node, ['--version'], { encoding: 'utf8' })
  const major = Number(/^v(\d+)\./.exec(stdout ?? '')?.[1])
  if (major < 24) return node
  const reason = `${node} is not a Node below 24`
  process.stderr.write(`SKIPPED: ${reason}\n`)
  t.skip(reason)
  return undefined
}

test('a Node that is too old starts the one of the installation', t => {
  const node = oldNode(t)
  if (node === undefined) return
  const { folder } = openFolder({ 'm/a.yaml': manifest('a', 'shop', { user: '3/day' }) })
  const launcher = join(root, 'operator/bin/tollway.js')
  const right = runIn(folder, node, [launcher, 'validate', '-f', 'm'])
  assert.deepEqual(right, { code: 0, out: '1 resource, no problem\n', err: '' })
  assert.equal(runIn(folder, node, [launcher, 'status']).code, 2)
})

test('routes are validated and translated with limits, and with the Secrets that they name', async () => {
  const route = (name: string, namespace: string, spec: string) =>
    `apiVersion: tollway.dev/v1alpha1\nkind: AnimationStreamRoute\nmetadata: {name: ${name}, namespace: ${namespace}}\n` +
    `spec: ${spec}\n`
  const secret =
    'apiVersion: v1\nkind: Secret\nmetadata: {name: tokens, namespace: shop}\nstringData: {token: abc}\n'
  const { folder } = openFolder({
    'm/limits.yaml': manifest('a', 'checkout', { user: '3/day' }),
    'm/route.yaml': `${route('kiosk', 'shop', '{match: {streamIdPrefix: k-}, tokenSecretRef: {name: tokens}}')}---\n${secret}`,
    'm/same.yaml': route('kiosk', 'shop2', '{match: {streamIdPrefix: k-vip-}}'),
    'm/locked.yaml': route('locked', 'shop', '{tokenSecretRef: {name: none}}'),
    'm/wrong.yaml': route('wrong', 'shop', '{slowConsumers: forceShutdown}'),
  })
  const manifests = join(folder, 'm')
  const judged = await inThisProcess('validate', '-f', manifests)
  assert.equal(judged.code, 1)
  const patterns = [
    /: AnimationStreamRoute shop2?\/kiosk: spec\.match\.streamIdPrefix: "k-.*" overlaps "k-.*; shop2?\/kiosk is declared in /m,
    /^warning: locked\.yaml: .*: the Secret shop\/none does not exist; the route is closed to all callers until then$/m,
    /^wrong\.yaml: AnimationStreamRoute shop\/wrong: spec\.slowConsumers: "forceShutdown" is not one of wait, /m,
  ]
  for (const pattern of patterns) assert.match(judged.out, pattern)
  assert.equal(judged.out.trimEnd().split('\n').length, patterns.length)

  const yaml = await inThisProcess('translate', '-f', manifests)
  const documents = loadAll(yaml.out) as { typeUrl: string; resources: Record<string, unknown>[] }[]
  assert.deepEqual(
    documents.map(({ typeUrl, resources }) => [typeUrl.split('.').at(-1), resources.length]),
    [
      ['RateLimitConfig', 1],
      ['StreamRoute', 2],
    ],
  )
  assert.doesNotMatch(yaml.out, /abc/)
})
