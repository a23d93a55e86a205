import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import type { Json, JsonObject } from '@tollway/chassis/json.ts'
import fc from 'fast-check'
import {
  type ApiAnswer,
  type KubeApiServer,
  missingKubeAssets,
  startKubeApiServer,
} from '../test/support/kube-api-server.ts'
import { waitFor } from '../test/support/wait-for.ts'
import { animationStreamRouteKind } from './animation-stream-route.ts'
import { admissionPolicy } from './generation/admission-policy.ts'
import { customResourceDefinition } from './generation/definition.ts'
import { merchantKind } from './merchant.ts'
import { resourceKinds } from './resource-kinds.ts'
import { nearlyRightResource } from './testing/arbitrary-rate-limit-config.ts'
import { largeCases } from './testing/large-cases.ts'
import { readCases } from './testing/read-cases.ts'
import { validateResource } from './validate.ts'
import { validateRateLimitConfig } from './validate-rate-limit-config.ts'

const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
const resources = '/apis/tollway.dev/v1alpha1/namespaces/default/ratelimitconfigs'
const routes = '/apis/tollway.dev/v1alpha1/namespaces/default/animationstreamroutes'
const merchants = '/apis/tollway.dev/v1alpha1/namespaces/default/merchants'
const strict = 'fieldValidation=Strict'
const fileCases = readCases('rate-limit-configs.yaml', 'RateLimitConfig')
const cases = [...fileCases, ...largeCases]
const routeCases = readCases('animation-stream-routes.yaml', 'AnimationStreamRoute')
const merchantCases = readCases('merchants.yaml', 'Merchant')

const manyRules = 1_000
const selfReplacing = { name: 'a', replaces: [{ name: 'a' }], unlimited: true }
const rejected = nestedOnce({ key: 'b', rateLimit: selfReplacing })

describe('a real API server with the definition', { skip: missingKubeAssets(), timeout: 90_000 }, () => {
  let api: KubeApiServer

  before(async () => {
    api = await startKubeApiServer()
    for (const kind of resourceKinds) {
      const made = await api.call('POST', `${definitions}?${strict}`, customResourceDefinition(kind))
      assert.equal(made.status, 201, describeAnswer(made))
      const path = `${definitions}/${kind.plural}.tollway.dev`
      await waitFor('the kind to be served', async () => isEstablished(await api.call('GET', path)))
    }
    for (const path of [resources, routes, merchants])
      await waitFor('the resources to be served', async () => (await api.call('GET', path)).status === 200)
    const older = await api.call('POST', resources, { ...rejected, metadata: { name: 'older' } })
    assert.equal(older.status, 201, describeAnswer(older))
    for (const object of admissionPolicy()) await post(object)
    // The policy takes effect only after the API server has compiled it, some seconds later.
    const inEffect = async () => (await tryOut(rejected)).status === 422
    await waitFor('the policy to take effect', inEffect, 60_000)
  })
  after(() => api?.stop())

  /** Resolves with the table that `kubectl get` shows: the names of the columns, and the first row. */
  const tableOf = async (path: string) => {
    const table = await api.call('GET', path, undefined, 'application/json;as=Table;g=meta.k8s.io;v=v1')
    const { columnDefinitions, rows } = table.body as {
      columnDefinitions: { name: string }[]
      rows: { cells: unknown[] }[]
    }
    return { columns: columnDefinitions.map(({ name }) => name), cells: rows[0]?.cells ?? [] }
  }

  const tryOut = (resource: unknown) => api.call('POST', `${resources}?${strict}&dryRun=All`, resource)

  const post = async (object: JsonObject) => {
    const path = `/apis/admissionregistration.k8s.io/v1/${String(object['kind']).toLowerCase()}`
    const made = await api.call('POST', `${path.replace(/y$/, 'ies').replace(/g$/, 'gs')}?${strict}`, object)
    assert.equal(made.status, 201, describeAnswer(made))
  }

  it('validates only descriptors that change, since an older policy may have accepted others', async () => {
    const path = `${resources}/older?${strict}`
    const change = async (metadata: object, spec: Json = {}) => {
      const older = (await api.call('GET', path)).body as { metadata: object; spec: object }
      const next = {
        metadata: { ...older.metadata, ...metadata },
        spec: { ...older.spec, ...(spec as object) },
      }
      return (await api.call('PUT', path, { ...older, ...next })).status
    }
    assert.equal(await change({ labels: { team: 'shop' } }), 200)
    assert.equal(await change({ annotations: { 'tollway.dev/paused': 'true' } }), 200)
    const rateLimit = { ...selfReplacing, name: 'b', replaces: [{ name: 'b' }] }
    assert.equal(await change({}, nestedOnce({ key: 'b', rateLimit })['spec']), 422)
    assert.equal(await change({}, nestedOnce({ key: 'b' })['spec']), 200)
    assert.equal(await change({}, rejected['spec']), 422)
    await api.call('DELETE', path)
  })

  it('accepts a change of the metadata of a resource with many rules', async () => {
    const rateLimit = { unit: 'minute', requestsPerUnit: 3 }
    const rules = Array.from({ length: manyRules }, (_, index) => ({
      key: 'k',
      value: `v${index}`,
      rateLimit,
    }))
    const spec = { domain: 'large', descriptors: [{ key: 'all', descriptors: rules }] }
    const large = { ...nestedOnce({ key: 'b' }), metadata: { name: 'large' }, spec }
    const made = await api.call('POST', resources, large)
    assert.equal(made.status, 201, describeAnswer(made).slice(0, 500))
    const { metadata, ...rest } = made.body as { metadata: object }
    const labelled = { ...rest, metadata: { ...metadata, labels: { team: 'shop' } } }
    const changed = await api.call('PUT', `${resources}/large`, labelled)
    assert.equal(changed.status, 200, describeAnswer(changed).slice(0, 500))
    await api.call('DELETE', `${resources}/large`)
  })

  it('merges rules with match that two managers apply, by their names', async () => {
    const rateLimit = { unit: 'minute', requestsPerUnit: 3 }
    const apply = async (manager: string, descriptors: readonly JsonObject[]) => {
      const manifest = { ...nestedOnce({ key: 'b' }), metadata: { name: 'shared' } }
      const spec = { domain: 'shared', descriptors }
      const path = `${resources}/shared?${strict}&fieldManager=${manager}`
      const answer = await api.call('PATCH', path, { ...manifest, spec })
      assert.ok(answer.status < 300, describeAnswer(answer))
      const { descriptors: merged } = (answer.body as { spec: { descriptors: readonly JsonObject[] } }).spec
      return merged.map(({ value, match, rateLimit: limit }) => [value, match, limit])
    }
    const rule = (value: string, match?: JsonObject) => ({
      key: 'path',
      value,
      rateLimit,
      ...(match && { match }),
    })
    // What 0.1.0 stored: a value without match.
    await apply('shop', [rule('/pay')])
    const api1 = rule('api', { prefix: '/api/' })
    const both = await apply('search', [api1, rule('', { regex: '/v[0-9]+' })])
    assert.deepEqual(both, [
      ['/pay', undefined, rateLimit],
      ['api', { prefix: '/api/' }, rateLimit],
      ['', { regex: '/v[0-9]+' }, rateLimit],
    ])
    // Each manager changes the way and removes a rule without the other one's.
    assert.deepEqual(await apply('search', [{ ...api1, match: { suffix: '.api' } }]), [
      ['/pay', undefined, rateLimit],
      ['api', { suffix: '.api' }, rateLimit],
    ])
    assert.deepEqual(await apply('shop', [rule('/pay', { exact: '/pay' })]), [
      ['/pay', { exact: '/pay' }, rateLimit],
      ['api', { suffix: '.api' }, rateLimit],
    ])
    assert.deepEqual(await apply('shop', []), [['api', { suffix: '.api' }, rateLimit]])
    await api.call('DELETE', `${resources}/shared`)
  })

  it('removes unknown fields, unless the client is strict or applies on the server', async () => {
    const rateLimit = { unit: 'day', requestsPerUnit: 1 }
    const newer = nestedOnce({ key: 'b', rateLimit: { ...rateLimit, later: true } })
    const lenient = await api.call('POST', `${resources}?dryRun=All`, newer)
    assert.equal(lenient.status, 201)
    assertSameSpec(lenient, nestedOnce({ key: 'b', rateLimit }))
    assert.match(describeAnswer(await tryOut(newer)), /unknown field .*rateLimit\.later/)
    const applied = await api.call('PATCH', `${resources}/newer?fieldManager=test&dryRun=All`, newer)
    assert.match(describeAnswer(applied), /rateLimit\.later: field not declared in schema/)
  })

  for (const each of cases) {
    const { name, resource, problems } = each
    const isRight = problems.length === 0
    it(`${isRight ? 'accepts' : 'rejects'}: ${name}`, async () => {
      const answer = await tryOut(resource)
      assert.equal(isAccepted(answer), isRight, describeAnswer(answer))
      if (isAccepted(answer)) assertSameSpec(answer, resource)
      else if (fileCases.includes(each)) assertNamesField(answer, problems)
    })
  }

  for (const { name, resource, problems } of routeCases) {
    const isRight = problems.length === 0
    it(`${isRight ? 'accepts' : 'rejects'} as a route: ${name}`, async () => {
      const answer = await api.call('POST', `${routes}?${strict}&dryRun=All`, resource)
      assert.equal(isAccepted(answer), isRight, describeAnswer(answer))
      const judged = validateResource(animationStreamRouteKind, resource)
      if ('value' in judged) assert.deepEqual((answer.body as { spec: unknown }).spec, judged.value)
    })
  }

  for (const { name, resource, problems } of merchantCases) {
    const isRight = problems.length === 0
    it(`${isRight ? 'accepts' : 'rejects'} as a merchant: ${name}`, async () => {
      const answer = await api.call('POST', `${merchants}?${strict}&dryRun=All`, resource)
      assert.equal(isAccepted(answer), isRight, describeAnswer(answer))
      const judged = validateResource(merchantKind, resource)
      if ('value' in judged) assert.deepEqual((answer.body as { spec: unknown }).spec, judged.value)
    })
  }

  it('rejects a change of a fixed field of a merchant, and names the field and a way out', async () => {
    const spec = {
      currency: 'DKK',
      email: 'shop@example.org',
      website: 'https://example.org',
      descriptor: 'SHOP',
      company: { country: 'DK', number: '1' },
      bank: { iban: 'DK5000400440116243' },
    }
    const metadata = { name: 'fixed' }
    const resource = { apiVersion: 'tollway.dev/v1alpha1', kind: 'Merchant', metadata, spec }
    const made = await api.call('POST', `${merchants}?${strict}`, resource)
    assert.equal(made.status, 201, describeAnswer(made))
    const { spec: stored } = made.body as { spec: JsonObject }
    const change = (changes: JsonObject) => {
      const changed = { ...(made.body as object), spec: { ...stored, ...changes } }
      return api.call('PUT', `${merchants}/fixed?${strict}&dryRun=All`, JSON.parse(JSON.stringify(changed)))
    }
    const allowed: readonly JsonObject[] = [
      { name: 'The shop' },
      { email: 'other@example.org' },
      { descriptor: '' },
      { users: ['anna@example.org'], deletionPolicy: 'Delete', app: { rotateAfter: '30d' } },
    ]
    for (const changes of allowed) {
      const answer = await change(changes)
      assert.equal(answer.status, 200, describeAnswer(answer))
    }
    const key = { name: 'old', key: 'apiKey' }
    const merchantId = '01234567-89ab-7cde-8f01-23456789abcd'
    const rejected: Readonly<Record<string, JsonObject>> = {
      currency: { currency: 'EUR' },
      test: { test: false },
      website: { website: 'https://example.com' },
      company: { company: { country: 'DK' } },
      bank: { bank: {} },
      secretRef: { secretRef: { name: 'other' } },
      adopt: { adopt: { merchantId, apiKeySecretRef: key } },
    }
    for (const [field, changes] of Object.entries(rejected)) {
      const answer = await change(changes)
      assert.equal(answer.status, 422, describeAnswer(answer))
      const advice = 'create another Merchant|copy the Secret'
      assert.match(describeAnswer(answer), new RegExp(`${field} is fixed since .*; .*(${advice})`))
    }
  })

  it('shows the columns of a merchant', async () => {
    const made = await api.call('GET', `${merchants}/fixed`)
    const status = { observedGeneration: 1, merchantId: 'm', publicKey: 'p', conditions: [] }
    const written = await api.call('PUT', `${merchants}/fixed/status?${strict}`, {
      ...(made.body as object),
      status,
    })
    assert.equal(written.status, 200, describeAnswer(written))
    const table = await tableOf(merchants)
    assert.deepEqual(table.columns, ['Name', 'Id', 'Currency', 'Test', 'Credentials', 'Ready', 'Age'])
    assert.deepEqual(table.cells.slice(0, 4), ['fixed', 'm', 'DKK', true])
  })

  it('shows the columns of a route', async () => {
    const metadata = { name: 'shown' }
    const spec = { match: { streamIdPrefix: 'shop-', sourceServiceId: 'a2f' } }
    const resource = { apiVersion: 'tollway.dev/v1alpha1', kind: 'AnimationStreamRoute', metadata, spec }
    const made = await api.call('POST', `${routes}?${strict}`, resource)
    assert.equal(made.status, 201, describeAnswer(made))
    const status = { observedGeneration: 1, activeStreams: 2, consumers: 5, enforced: '2/2', conditions: [] }
    const written = await api.call('PUT', `${routes}/shown/status?${strict}`, {
      ...(made.body as object),
      status,
    })
    assert.equal(written.status, 200, describeAnswer(written))
    const table = await tableOf(routes)
    assert.deepEqual(table.columns, [
      'Name',
      'Prefix',
      'Source',
      'Streams',
      'Consumers',
      'Ready',
      'Enforced',
      'Age',
    ])
    assert.deepEqual(table.cells.slice(0, 5), ['shown', 'shop-', 'a2f', 2, 5])
  })

  const where = String.raw`spec\.descriptors\[\*\]\.descriptors\[\*\]`
  const below: readonly [string, JsonObject, RegExp][] = [
    [
      'a limit without a unit',
      { key: 'b', rateLimit: { requestsPerUnit: 1 } },
      new RegExp(`${where}\\.rateLimit: set either unlimited to true, or both unit and requestsPerUnit`),
    ],
    [
      'a limit that replaces itself',
      { key: 'b', rateLimit: { unlimited: true, name: 'a', replaces: [{ name: 'a' }] } },
      new RegExp(`${where}\\.rateLimit: replaces names the rule itself; name other rules only`),
    ],
    [
      'a threshold that nothing shares',
      { key: 'b', value: 'c', shareThreshold: true },
      new RegExp(`${where}: shareThreshold needs match, or a value with the wildcard \\*`),
    ],
    [
      'two ways to match',
      { key: 'b', match: { prefix: 'a', suffix: 'b' } },
      new RegExp(`${where}: match needs exactly one of exact, oneOf, prefix, suffix, cidr, regex`),
    ],
    [
      'a regular expression that is none',
      { key: 'b', match: { regex: '/v(1|2' } },
      /descriptors: match\.regex must be a regular expression in the syntax of RE2.*: missing closing \): `\/v\(1\|2`$/,
    ],
    [
      'a time zone that is none',
      { key: 'b', rateLimit: { unit: 'day', requestsPerUnit: 1, calendar: { timeZone: 'Europe/Paradise' } } },
      /descriptors: .*calendar\.timeZone must be a name of the IANA .*: unknown time zone Europe\/Paradise$/,
    ],
  ]
  const daily = { unit: 'day', requestsPerUnit: 1 }
  const ipv4Groups = { groupBy: { ipv4Prefix: 24 } }
  const groupsNeedAddresses = 'groupBy needs match.cidr, or neither match nor value'
  const concurrencyFields =
    'algorithm: Concurrency needs maxConcurrent and leaseSeconds, which no other algorithm has, and excludes unit, ' +
    'requestsPerUnit, unitMultiplier, countRejected'
  const noWildcard =
    'neither key nor value can contain a * beside match or groupBy; beside match, value is a name'
  const onEachLevel: readonly [string, JsonObject, string][] = [
    ['groupBy beside a value', { key: 'b', value: 'c', ...ipv4Groups }, groupsNeedAddresses],
    ['groupBy beside a prefix', { key: 'b', match: { prefix: 'a' }, ...ipv4Groups }, groupsNeedAddresses],
    [
      'groupBy beside shareThreshold',
      { key: 'b', match: { cidr: ['::/0'] }, ...ipv4Groups, shareThreshold: true },
      'set either groupBy or shareThreshold, not both',
    ],
    ['groupBy without a length', { key: 'b', groupBy: {} }, 'groupBy needs ipv4Prefix, ipv6Prefix or both'],
    ['a * in a key beside groupBy', { key: 'b*', ...ipv4Groups }, noWildcard],
    ['a * in a value beside match', { key: 'b', value: 'c*', match: { prefix: 'a' } }, noWildcard],
    ['Concurrency alone', { key: 'b', rateLimit: { algorithm: 'Concurrency' } }, concurrencyFields],
    [
      'Concurrency with a window',
      {
        key: 'b',
        rateLimit: { algorithm: 'Concurrency', maxConcurrent: 2, leaseSeconds: 3, unitMultiplier: 2 },
      },
      concurrencyFields,
    ],
    [
      'holds of a window',
      { key: 'b', rateLimit: { ...daily, maxConcurrent: 2, leaseSeconds: 3 } },
      concurrencyFields,
    ],
    [
      'holds in one of several limits',
      { key: 'b', limits: [{ ...daily, maxConcurrent: 2 }, daily] },
      concurrencyFields,
    ],
  ]
  for (const [name, descriptor, message] of onEachLevel) {
    it(`says what to do about ${name} on each level`, async () => {
      const nested = nestedOnce(descriptor)
      const first = { ...nested, spec: { domain: 'a', descriptors: [descriptor] } }
      for (const resource of [first, nested]) {
        const answer = await tryOut(resource)
        assert.equal(answer.status, 422)
        assert.ok(describeAnswer(answer).includes(message), describeAnswer(answer))
      }
    })
  }

  for (const [name, descriptor, message] of below) {
    it(`says what to do about ${name} below the first level`, async () => {
      const answer = await tryOut(nestedOnce(descriptor))
      assert.equal(answer.status, 422)
      assert.match(describeAnswer(answer), message)
      assert.ok(describeAnswer(answer).length < 600, describeAnswer(answer))
    })
  }

  it('accepts and rejects random resources as validateRateLimitConfig does', async () => {
    const accepted = { yes: 0, no: 0 }
    const property = fc.asyncProperty(nearlyRightResource, async resource => {
      const answer = await tryOut(resource)
      const judged = validateRateLimitConfig(resource)
      assert.equal(
        isAccepted(answer),
        'value' in judged,
        `${describeAnswer(answer)} ${JSON.stringify(judged)}`,
      )
      if (isAccepted(answer)) assertSameSpec(answer, resource)
      accepted['value' in judged ? 'yes' : 'no']++
    })
    await fc.assert(property, { numRuns: Number(process.env['FC_RUNS'] ?? 100), seed: 1 })
    assert.ok(Math.min(accepted.yes, accepted.no) > 10, JSON.stringify(accepted))
  })

  it('rejects a change of the domain, shows the columns and keeps the status', async () => {
    const spec = { domain: 'a', descriptors: [] }
    const resource = {
      apiVersion: 'tollway.dev/v1alpha1',
      kind: 'RateLimitConfig',
      metadata: { name: 'kept' },
      spec,
    }
    assert.equal((await api.call('POST', `${resources}?${strict}`, resource)).status, 201)
    const current = (await api.call('GET', `${resources}/kept`)).body as typeof resource
    const moved = await api.call('PUT', `${resources}/kept`, { ...current, spec: { ...spec, domain: 'b' } })
    assert.equal(moved.status, 422)
    assert.match(describeAnswer(moved), /spec\.domain: .*domain cannot be changed/)

    const status = {
      observedGeneration: 1,
      rules: 3,
      enforced: '2/2',
      conditions: [
        {
          type: 'Ready',
          status: 'True',
          reason: 'Enforced',
          message: '',
          observedGeneration: 1,
          lastTransitionTime: '2026-11-21T10:00:00.123Z',
        },
      ],
    }
    const written = await api.call('PUT', `${resources}/kept/status?${strict}`, { ...current, status })
    assert.equal(written.status, 200, describeAnswer(written))
    const { columns, cells } = await tableOf(resources)
    assert.deepEqual(columns, ['Name', 'Domain', 'Rules', 'Ready', 'Enforced', 'Age'])
    assert.deepEqual(cells.slice(0, 5), ['kept', 'a', 3, 'True', '2/2'])
  })
})

function nestedOnce(descriptor: JsonObject): JsonObject {
  return {
    apiVersion: 'tollway.dev/v1alpha1',
    kind: 'RateLimitConfig',
    metadata: { name: 'a' },
    spec: { domain: 'a', descriptors: [{ key: 'a', descriptors: [descriptor] }] },
  }
}

function isAccepted({ status }: ApiAnswer): boolean {
  assert.ok(status < 500 && status !== 404, `status ${status}`)
  return status === 201
}

/** Asserts that validation in this process returns the same spec as the API server stores. */
function assertSameSpec({ body }: ApiAnswer, resource: unknown): void {
  const judged = validateRateLimitConfig(resource)
  if ('value' in judged) assert.deepEqual(judged.value, (body as { spec: unknown }).spec)
}

/** Asserts that the answer names the last field of the path of at least one problem of the spec. */
function assertNamesField(answer: ApiAnswer, problems: readonly string[]): void {
  const paths = problems.filter(problem => problem.startsWith('spec.')).map(problem => problem.split(': ')[0])
  const names = paths.map(path => `${path?.match(/[A-Za-z]\w*/g)?.at(-1)}`)
  const found = describeAnswer(answer)
  assert.ok(names.length === 0 || names.some(name => found.includes(name)), `${names}: ${found}`)
}

function isEstablished({ body }: ApiAnswer): boolean {
  const { conditions = [] } =
    (body as { status?: { conditions?: { type: string; status: string }[] } }).status ?? {}
  return conditions.some(({ type, status }) => type === 'Established' && status === 'True')
}

function describeAnswer({ status, body }: ApiAnswer): string {
  const { message } = body as { message?: string }
  return `${status} ${message ?? ''}`.slice(0, 2000)
}
