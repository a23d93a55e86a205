import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { CORE_SCHEMA, loadAll } from 'js-yaml'
import { apiVersion } from '../../crds/resource-kind.ts'
import type { StoredResource } from '../../operator/environments/kubernetes/status/stored-resource.ts'
import { openPostgres } from '../../services/payments/storage/engine/postgres.ts'
import type { Storage } from '../../services/payments/storage/storage.ts'
import { root } from '../support/tollway.ts'
import { apply, eventually, kubectl, logged, type Pod, read, replaceAtOnce, restart } from './cluster.ts'
import { createFigures } from './figures.ts'
import { ensureInstalled, readyPods, system } from './release.ts'
import { withTestImages } from './test-images.ts'
import { startTill, type Till } from './till-pod.ts'

const shop = 'bakery'
const example = 'florist'
const payments = 'app.kubernetes.io/name=payments'
const skip = process.env['KUBECONFIG'] === undefined && 'KUBECONFIG names no cluster'

describe('payments in a cluster', { skip, timeout: 600_000 }, () => {
  const figures = createFigures('payments')
  let storage: Storage
  let till: Till

  before(async () => {
    await ensureInstalled()
    await apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: shop } })
    storage = await openDatabase()
  })
  after(async () => {
    await storage?.close()
    await kubectl('delete', 'namespace', shop, example, '--ignore-not-found', '--wait=false')
    figures.write()
  })

  it('has two ready processes, with a schema and their objects', async () => {
    assert.equal((await readyPods(payments)).length, 2)
    const kinds = ['deployments', 'serviceaccounts', 'networkpolicies', 'poddisruptionbudgets', 'secrets']
    for (const kind of kinds) assert.ok(await read(system, `${kind}/tollway-payments`), kind)
    assert.ok(await read(system, 'services/tollway-payments-http'))
    assert.ok((await countOf('schema_migrations')) > 0)
    const [pod] = await readyPods(payments)
    const metrics = await (await fetch(`http://${pod?.status.podIP}:6073/metrics`)).text()
    assert.match(metrics, /^payments_database_reachable 1$/m)
  })

  it('reports the missing right to write Secrets, and needs no restart when it is granted', async () => {
    await apply(readFileSync(join(root, 'examples/payments/bakery.yaml'), 'utf8'))
    const forbidden = async () =>
      (await read<StoredResource>(shop, 'merchants/bakery'))?.status?.conditions?.find(
        ({ reason, type }) => type === 'Ready' && reason === 'SecretForbidden',
      )
    await eventually('the missing right to be reported', async () => (await forbidden()) !== undefined)
    const [, command = ''] = (await forbidden())?.message.split('with: ') ?? []
    const beginMs = performance.now()
    await kubectl(...command.split(' ').slice(1))
    await ready('bakery')
    figures.note('granted Secrets → merchant Ready', '< 50 s', seconds(performance.now() - beginMs))
  })

  it('creates a merchant of a resource, and a Secret with its key', async () => {
    const { merchantId, publicKey } = await statusOf('bakery')
    const entries = await entriesOf('bakery-payments')
    const base = 'http://tollway-payments-http.tollway-system.svc:8090'
    assert.deepEqual(
      { ...entries, PAYMENTS_API_KEY: '', PAYMENTS_APP_ID: '' },
      {
        PAYMENTS_API_KEY: '',
        PAYMENTS_APP_ID: '',
        PAYMENTS_MERCHANT_ID: merchantId,
        PAYMENTS_PUBLIC_KEY: publicKey,
        PAYMENTS_URL: base,
        PAYMENTS_PAGE_URL: `${base}/pay`,
      },
    )
    assert.equal(await opens(entries['PAYMENTS_API_KEY'], merchantId), 200)
    assert.match(await kubectl('-n', shop, 'get', 'mer'), /bakery +\S{36} +DKK +true +True/)
  })

  it('sells from a pod whose environment is that Secret', async () => {
    till = await startTill(shop, 'bakery-payments')
    const { transaction, lines } = await till.sell()
    const { capturedAmount, refundedAmount, pendingAmount } = transaction
    assert.deepEqual([capturedAmount, refundedAmount, pendingAmount], [7_500, 500, 2_500])
    const amounts = lines.map(({ amount }) => amount.amount)
    assert.deepEqual(
      amounts.toSorted((a, b) => a - b),
      [500, 7_500],
    )
  })

  it('captures with the unchanged application of examples/kubernetes/payments', async () => {
    await apply(
      withTestImages(readFileSync(join(root, 'examples/kubernetes/payments/payments.yaml'), 'utf8')),
    )
    await kubectl('-n', example, 'wait', '--for=condition=Ready', 'mer/florist', '--timeout=120s')
    await kubectl('-n', example, 'rollout', 'status', 'deploy/florist', '--timeout=120s')
    const key = await kubectl('-n', example, 'get', 'mer/florist', '-o', 'jsonpath={.status.publicKey}')
    const [pod] = await readyPods(payments)
    const page = `http://${pod?.status.podIP}:8090/pay/?key=${key}&amount=10000&currency=DKK`
    const [, token = ''] = /name="token" value="([^"]+)"/.exec(await (await fetch(page)).text()) ?? []
    const form = { token, number: '4100 0000 0000 0001', expiry: '08 / 66', code: '123' }
    const paid = await fetch(page, {
      method: 'POST',
      body: new URLSearchParams(form),
      redirect: 'manual',
    })
    assert.equal(paid.status, 303, await paid.text())
    await logged(example, ['deploy/florist'], /^captured 10000 DKK of [0-9a-f-]{36}$/m)
  })

  it('rejects a change of a fixed field', async () => {
    const changes = { currency: 'EUR', test: false, website: 'https://a.example', company: { country: 'SE' } }
    for (const [field, value] of Object.entries(changes)) {
      const patch = [
        'patch',
        'mer',
        'bakery',
        '--type=merge',
        '-p',
        JSON.stringify({ spec: { [field]: value } }),
      ]
      await assert.rejects(kubectl('-n', shop, ...patch), new RegExp(`${field} is fixed since the Merchant`))
    }
  })

  it('rotates a key on demand, and keeps the previous one valid for a while', async () => {
    await apply(merchant('cafe'))
    await ready('cafe')
    const { merchantId } = await statusOf('cafe')
    const { apiKey: before } = await entriesOf('cafe')
    await kubectl('-n', shop, 'annotate', 'mer', 'cafe', 'tollway.dev/rotate-key=now')
    await eventually('another key', async () => (await entriesOf('cafe'))['apiKey'] !== before)
    const { apiKey: next } = await entriesOf('cafe')
    assert.deepEqual([await opens(before, merchantId), await opens(next, merchantId)], [200, 200])
  })

  describe('at the same time', { concurrency: true }, () => {
    it('creates a deleted Secret again, and rejects the previous key', async () => {
      const { merchantId } = await statusOf('cafe')
      const { apiKey: before } = await entriesOf('cafe')
      const beginMs = performance.now()
      await kubectl('-n', shop, 'delete', 'secret', 'cafe')
      await eventually('the Secret', async () => (await entriesOf('cafe'))['apiKey'] !== undefined)
      figures.note('a deleted Secret is there again', '< 50 s', seconds(performance.now() - beginMs))
      const { apiKey: next } = await entriesOf('cafe')
      assert.notEqual(next, before)
      assert.equal(await opens(next, merchantId), 200)
      await eventually('the key before to be closed', async () => (await opens(before, merchantId)) === 401)
    })

    it('restarts its processes, and no capture is lost or repeated', async t => {
      const linesBefore = await countOf('lines')
      const stop = till.rush()
      await eventually('captures', async () => (await countOf('lines')) > linesBefore + 5)
      await restart(system, 'tollway-payments', payments)
      const during = await countOf('lines')
      await eventually('captures after that', async () => (await countOf('lines')) > during + 5)
      const { captures, wrong, sent, replayed, longestMs, longest, ...control } = await stop()
      assert.deepEqual(wrong, [])
      assert.equal((await countOf('lines')) - linesBefore, captures)
      const shown = `0 of ${captures}, ${sent} requests, ${replayed} given again`
      figures.note('captures lost or doubled in a rolling restart', '0', shown)
      const { controlMs, beyondControlMs } = control
      const waited = `${longestMs} ms, of the control ${controlMs} ms, beyond the control ${beyondControlMs} ms`
      figures.note('longest wait of a caller in it', '< 1 s beyond the control', waited)
      t.diagnostic(`the requests of the longest wait: ${longest}`)
      assert.ok(beyondControlMs < 1_000, waited)
    })
  })

  it('accepts every new connection while all its pods are deleted at once', async () => {
    const [service, control] = await Promise.all(
      ['tollway-payments-http', 'tollway-operator'].map(name => read<Service>(system, `services/${name}`)),
    )
    const replaced = await replaceAtOnce(system, payments, {
      url: `http://${service?.spec.clusterIP}:8090/healthz`,
      controlUrl: `http://${control?.spec.clusterIP}:8000/readyz`,
      acceptMs: 10_000,
    })
    figures.note('payments: new connections, all pods deleted', '0 failed', JSON.stringify(replaced))
    assert.ok(replaced.failed <= replaced.failedOfControl, JSON.stringify(replaced))
  })

  it('keeps the merchant of a deleted resource, and lets another one adopt it with its key', async () => {
    const { merchantId } = await statusOf('cafe')
    const { apiKey } = await entriesOf('cafe')
    await apply({ apiVersion: 'v1', kind: 'Secret', metadata: inShop('kept'), stringData: { apiKey } })
    await kubectl('-n', shop, 'delete', 'mer', 'cafe')
    await eventually('its Secret to go', async () => (await read(shop, 'secrets/cafe')) === undefined)
    assert.equal(await opens(apiKey, merchantId), 200)
    await apply(merchant('cafe', { adopt: { merchantId, apiKeySecretRef: { name: 'kept' } } }))
    await ready('cafe')
    assert.equal((await statusOf('cafe')).merchantId, merchantId)
    const { apiKey: own } = await entriesOf('cafe')
    assert.notEqual(own, apiKey)
    assert.deepEqual([await opens(own, merchantId), await opens(apiKey, merchantId)], [200, 200])
    // A resource that names only the id does not get the merchant.
    const wrong = { merchantId, apiKeySecretRef: { name: 'cafe', key: 'publicKey' } }
    await apply(merchant('thief', { adopt: wrong }))
    await eventually('the rejection', async () => (await reasonOf('thief')) === 'Refused')
    await kubectl('-n', shop, 'delete', 'mer', 'thief')
  })

  it('closes a merchant with its resource, if its policy says so', async () => {
    const { merchantId } = await statusOf('cafe')
    const { apiKey } = await entriesOf('cafe')
    await apply(merchant('kiosk', { deletionPolicy: 'Delete' }))
    await ready('kiosk')
    const { apiKey: closing } = await entriesOf('kiosk')
    const { merchantId: closed } = await statusOf('kiosk')
    await kubectl('-n', shop, 'delete', 'mer', 'kiosk', '--timeout=120s')
    assert.equal(await opens(closing, closed), 401)
    assert.equal(await opens(apiKey, merchantId), 200)
    const [row] = await query<{ closed: Date | null }>(`SELECT closed FROM merchants WHERE id = '${closed}'`)
    assert.ok(row?.closed, 'its row stays')
  })

  it('creates ten merchants of ten resources while their operator is killed', async () => {
    const [merchantsBefore, appsBefore] = [await countOf('merchants'), await countOf('apps')]
    const names = Array.from({ length: 10 }, (_, index) => `stall-${index}`)
    const applied = apply({ apiVersion: 'v1', kind: 'List', items: names.map(name => merchant(name)) })
    const made = async () => (await countOf('merchants')) - merchantsBefore
    await eventually('the first to be made', async () => (await made()) > 0)
    const holder = await leader()
    const atKill = await made()
    await kubectl('-n', system, 'delete', 'pod', holder, '--grace-period=0', '--force')
    await applied
    await ready(...names)
    figures.note('merchants made of ten, the operator killed at', '10', `${await made()}, ${atKill}`)
    assert.equal(await made(), 10)
    assert.equal((await countOf('apps')) - appsBefore, 10)
    const ids = new Set<string>()
    for (const { metadata, data } of await secretsOf(names)) {
      const { apiKey, merchantId = '' } = decoded(data)
      ids.add(merchantId)
      assert.equal(await opens(apiKey, merchantId), 200, metadata.name)
    }
    assert.equal(ids.size, 10)
  })

  it('verifies its books beside the service, and runs the admin commands', async () => {
    const [proof = {}] = loadAll(readFileSync(join(root, 'examples/payments/verify.yaml'), 'utf8'), {
      schema: CORE_SCHEMA,
    }) as object[]
    await apply(JSON.stringify(proof).replace(/tollway\/operator:[^"]+/, 'tollway/operator:dev'))
    await kubectl('-n', system, 'create', 'job', 'verify', '--from=cronjob/payments-verify')
    await kubectl('-n', system, 'wait', '--for=condition=Complete', 'job/verify', '--timeout=120s')
    assert.match(await kubectl('-n', system, 'logs', 'job/verify'), /\nEverything adds up\.\n/)
    await kubectl('-n', system, 'delete', 'cronjob/payments-verify')
    const byHand = ['exec', 'deploy/tollway-payments', '--', 'payments']
    const { merchantId } = await statusOf('bakery')
    const paid = await kubectl(
      '-n',
      system,
      ...byHand,
      'payout',
      '--period',
      'today',
      '--merchant',
      merchantId,
    ).catch((error: Error) => error.message)
    assert.match(paid, /the merchant has no bank account/)
    assert.match(await kubectl('-n', system, ...byHand, 'verify'), /\nEverything adds up\.\n/)
  })

  async function query<Row>(sql: string): Promise<readonly Row[]> {
    return storage.transaction(tx => tx.query<Row>(sql))
  }

  async function countOf(table: string): Promise<number> {
    const [row] = await query<{ count: bigint }>(`SELECT count(*) AS count FROM ${table}`)
    return Number(row?.count ?? 0n)
  }

  /**
   * Resolves with the status code of a request for the merchant with this key: 200, or 401 for an invalid
   * key.
   */
  async function opens(key: string | undefined, merchantId: string | undefined): Promise<number> {
    const [pod] = await readyPods(payments)
    const authorization = `Basic ${Buffer.from(`:${key}`).toString('base64')}`
    const url = `http://${pod?.status.podIP}:8090/merchants/${merchantId}`
    return (await fetch(url, { headers: { authorization } })).status
  }
})

/** The database of the tests, by the address of its pod. */
async function openDatabase(): Promise<Storage> {
  const pod = await read<Pod>('databases', 'pods/postgres')
  return openPostgres({
    url: `postgres://postgres:of-the-tests@${pod?.status.podIP}:5432/postgres`,
    clock: systemClock,
    random: Math.random,
    maxConnections: 2,
    connectTimeoutMs: 30_000,
    statementTimeoutMs: 30_000,
    onIdleError: () => {},
  })
}

const inShop = (name: string) => ({ name, namespace: shop })

function merchant(name: string, more: object = {}) {
  const spec = {
    currency: 'DKK',
    email: `${name}@example.org`,
    website: `https://${name}.example.org`,
    descriptor: name.toUpperCase(),
    company: { country: 'DK' },
    ...more,
  }
  return { apiVersion, kind: 'Merchant', metadata: inShop(name), spec }
}

async function ready(...names: readonly string[]): Promise<void> {
  const all = names.map(name => `mer/${name}`)
  await kubectl('-n', shop, 'wait', '--for=condition=Ready', ...all, '--timeout=120s')
}

async function statusOf(name: string): Promise<{ readonly merchantId: string; readonly publicKey: string }> {
  const { merchantId = '', publicKey = '' } = ((await read<StoredResource>(shop, `merchants/${name}`))
    ?.status ?? {}) as { readonly merchantId?: string; readonly publicKey?: string }
  return { merchantId, publicKey }
}

/** Returns the reason why it is not ready. */
async function reasonOf(name: string): Promise<string | undefined> {
  const { status } = (await read<StoredResource>(shop, `merchants/${name}`)) ?? {}
  return status?.conditions?.find(({ type }) => type === 'Ready')?.reason
}

interface Service {
  readonly spec: { readonly clusterIP: string }
}

interface Secret {
  readonly metadata: { readonly name: string }
  readonly data?: Readonly<Record<string, string>>
}

async function secretsOf(names: readonly string[]): Promise<readonly Secret[]> {
  const text = await kubectl('-n', shop, 'get', 'secrets', ...names, '-o', 'json')
  return (JSON.parse(text) as { readonly items: readonly Secret[] }).items
}

/** Returns the entries of a Secret; empty if it does not exist. */
async function entriesOf(secret: string): Promise<Readonly<Record<string, string>>> {
  return decoded((await read<Secret>(shop, `secrets/${secret}`))?.data)
}

function decoded(data: Secret['data'] = {}): Readonly<Record<string, string>> {
  const texts = Object.entries(data).map(([name, value]) => [name, Buffer.from(value, 'base64').toString()])
  return Object.fromEntries(texts)
}

async function leader(): Promise<string> {
  const lease = await read<{ readonly spec: { readonly holderIdentity: string } }>(
    system,
    'leases/tollway-operator',
  )
  return lease?.spec.holderIdentity.split('_')[0] ?? ''
}

const seconds = (ms: number) => `${(ms / 1000).toFixed(1)} s`
