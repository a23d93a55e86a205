import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { newWebhookSecret } from '@tollway/chassis/webhooks/webhook-secret.ts'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import { createCredentialFiles, credentialFile } from '../../environments/host/credentials.ts'
import type { MerchantAccount } from '../../model.ts'
import {
  type ProvisioningUnderTest,
  someAccount,
  startProvisioning,
} from '../../testing/start-provisioning.ts'
import { SecretForbiddenError } from '../source.ts'
import type { CredentialStore } from './credential-store.ts'
import { MerchantReconciler } from './merchant-reconciler.ts'
import type { Provisioner } from './provisioner.ts'

const addresses = { baseUrl: 'https://pay.example.org', payPageUrl: 'https://pay.example.org/pay' }
const hourMs = 3_600_000
const noSignal = new AbortController().signal

/**
 * Simulates a crash: counts the calls that leave the process, and lets the armed one and all later ones fail.
 */
function createKiller() {
  let left = Number.POSITIVE_INFINITY
  let isDead = false
  async function killable<Result>(effect: () => Promise<Result>): Promise<Result> {
    // Each call can be killed at two moments: before its effect and after it.
    if (isDead || left-- <= 0) throw die()
    const result = await effect()
    if (left-- <= 0) throw die()
    return result
  }
  function die() {
    isDead = true
    return new Error('the process was killed')
  }
  return {
    killable,
    isDead: () => isDead,
    /** @param moment the number of moments to survive; without it, the process is not killed */
    arm(moment = Number.POSITIVE_INFINITY) {
      left = moment
      isDead = false
    },
  }
}

describe('# a Merchant with a real payments service', () => {
  let service: ProvisioningUnderTest
  const reference = temporaryFolder('merchants')
  let uids = 0

  before(async () => {
    service = await startProvisioning()
  })
  after(async () => {
    await service?.close()
  })

  /** Creates one resource with a Secret in a file, and an operator that can be killed. */
  function openWorld(provisioner?: Provisioner | null, changes: Partial<CredentialStore> = {}) {
    const uid = `uid-${uids++}`
    const stateDir = join(reference, uid)
    const killer = createKiller()
    const files = createCredentialFiles(stateDir)
    const secrets = new Map<string, Readonly<Record<string, string>>>()
    let calls = 0
    const store: CredentialStore = {
      get: (...args) => killer.killable(() => files.get(...args)),
      put: (...args) => killer.killable(() => files.put(...args)),
      ...changes,
    }
    const asked = provisioner ?? service.provisioner
    const start = () =>
      new MerchantReconciler({
        store,
        readSecret: async (namespace, name) => secrets.get(`${namespace}/${name}`),
        provisioner:
          provisioner === null
            ? undefined
            : {
                provision: (...args) => {
                  calls++
                  return killer.killable(() => asked.provision(...args))
                },
                check: (...args) => asked.check(...args),
                close: (...args) => killer.killable(() => asked.close(...args)),
              },
        addresses,
        clock: service.clock,
        randomBytes,
      })
    let merchants = start()
    let account = someAccount()
    let rotation = ''
    const hold = async () => {}
    const secretPlace = { namespace: 'sales', name: 'shop', owner: { name: 'shop', uid } }
    return {
      uid,
      killer,
      secrets,
      stateDir,
      calls: () => calls,
      change(changes: Partial<MerchantAccount>) {
        account = someAccount(changes)
      },
      ask(text: string) {
        rotation = text
      },
      restart(moment?: number) {
        killer.arm(moment)
        merchants = start()
      },
      reconcile: () =>
        merchants.reconcile({ uid, namespace: 'sales', name: 'shop', account, rotation, hold }, noSignal),
      close: () => merchants.close(uid, noSignal),
      file: credentialFile(stateDir, secretPlace),
      deleteSecret: () => rmSync(credentialFile(stateDir, secretPlace)),
      async entries() {
        return (await files.get(secretPlace, noSignal))?.entries ?? {}
      },
    }
  }

  type World = ReturnType<typeof openWorld>

  async function ready(world: World) {
    const outcome = await world.reconcile()
    assert.equal(outcome.obstacle, undefined, outcome.obstacle?.message)
    assert.ok(outcome.ids)
    const entries = await world.entries()
    assert.deepEqual(
      { ...entries, apiKey: '' },
      {
        apiKey: '',
        appId: outcome.ids.appId,
        merchantId: outcome.ids.merchantId,
        publicKey: outcome.ids.publicKey,
        ...addresses,
      },
    )
    const { apiKey = '' } = entries
    assert.equal(await service.merchantsOf(world.uid), 1)
    assert.equal(await service.appOf(apiKey), outcome.ids.appId, 'the key in the Secret opens its app')
    return { ...outcome.ids, apiKey }
  }

  it('is created, with its key in a file that only its owner reads', async () => {
    const world = openWorld()
    const { apiKey, appId } = await ready(world)
    assert.match(apiKey, /^tollway_[A-Za-z0-9_-]{43}$/)
    assert.equal(statSync(world.file).mode & 0o777, 0o600)
    assert.equal(await service.keysInForce(appId), 1)
    assert.ok(!service.logged().includes(apiKey))
  })

  it('needs no further call once it is provisioned, also after a restart', async () => {
    const world = openWorld()
    const first = await ready(world)
    const text = readFileSync(world.file, 'utf8')
    const calls = world.calls()
    assert.deepEqual(await ready(world), first)
    assert.equal(world.calls(), calls, 'no change is reported twice')
    world.restart()
    assert.deepEqual(await ready(world), first)
    assert.equal(readFileSync(world.file, 'utf8'), text)
    assert.equal(world.calls(), calls + 1)
    service.clock.elapse(hourMs)
    await ready(world)
    assert.equal(world.calls(), calls + 2, 'after a while it is provisioned again')
  })

  /** Changes of an existing merchant. A kill at any moment of one must not change the result. */
  const changes: readonly [string, (world: World) => void][] = [
    ['made', () => {}],
    ['given another key on demand', world => world.ask('now')],
    ['given another Secret', world => world.deleteSecret()],
  ]
  for (const [name, change] of changes) {
    it(`is ${name} after any kill of the operator`, async () => {
      let moments = 0
      for (let isOver = false; !isOver; moments++) {
        const world = openWorld()
        const before = name === 'made' ? undefined : await ready(world)
        change(world)
        world.restart(moments)
        await world.reconcile()
        isOver = !world.killer.isDead()
        const { apiKey } = await world.entries()
        const opened = apiKey === undefined ? undefined : await service.appOf(apiKey)
        assert.ok(apiKey === undefined || opened, `after ${moments}: a key in the Secret is valid`)
        world.restart(moments % 3)
        await world.reconcile()
        world.restart()
        const now = await ready(world)
        assert.notEqual(now.apiKey, before?.apiKey)
        assert.equal(now.merchantId, before?.merchantId ?? now.merchantId)
        if (name.includes('Secret')) assert.equal(await service.keysInForce(now.appId), 1)
        if (before === undefined) continue
        service.clock.elapse(hourMs)
        assert.equal(await service.appOf(before.apiKey), undefined, 'the previous key is rejected')
        assert.equal(await service.keysInForce(now.appId), 1)
      }
      assert.ok(moments > 6, `${moments}`)
    })
  }

  it('keeps its previous key for a while after a rotation', async () => {
    const world = openWorld()
    const first = await ready(world)
    world.ask('2026-11-21')
    const second = await ready(world)
    assert.notEqual(second.apiKey, first.apiKey)
    assert.equal(await service.appOf(first.apiKey), first.appId)
    service.clock.elapse(hourMs)
    assert.equal(await service.appOf(first.apiKey), undefined)
    assert.equal((await ready(world)).apiKey, second.apiKey, 'one request is one rotation')
  })

  it('gets another key when its own is too old', async () => {
    const world = openWorld()
    world.change({ app: { name: null, rotateAfterMs: 24 * hourMs, keyGraceMs: hourMs } })
    const first = await ready(world)
    service.clock.elapse(24 * hourMs - 5_000)
    const { afterMs = 0 } = await world.reconcile()
    assert.ok(afterMs <= 5_000, `it reconciles again when the key is too old, in ${afterMs} ms`)
    service.clock.elapse(5_000)
    assert.notEqual((await ready(world)).apiKey, first.apiKey)
  })

  it('never uses a key of another writer of its Secret', async () => {
    const world = openWorld()
    const first = await ready(world)
    writeFileSync(world.file, readFileSync(world.file, 'utf8').replace(first.apiKey, 'password'))
    const second = await ready(world)
    assert.notEqual(second.apiKey, first.apiKey)
    assert.equal(await service.appOf('password'), undefined)
    assert.equal(await service.keysInForce(second.appId), 1)
  })

  it('gets another key after an old Secret was restored', async () => {
    const world = openWorld()
    await ready(world)
    const old = readFileSync(world.file, 'utf8')
    world.deleteSecret()
    await ready(world)
    writeFileSync(world.file, old)
    const { appId } = await ready(world)
    assert.equal(await service.keysInForce(appId), 1)
  })

  it('does not change a foreign Secret', async () => {
    const world = openWorld()
    await ready(world)
    const theirs = readFileSync(world.file, 'utf8').replace(world.uid, 'another')
    writeFileSync(world.file, theirs)
    const { obstacle, ids } = await world.reconcile()
    assert.equal(obstacle?.reason, 'SecretForeign')
    assert.ok(ids)
    assert.equal(readFileSync(world.file, 'utf8'), theirs)
    world.deleteSecret()
    await ready(world)
  })

  it('reports a difference of the resource from the merchant, which stays as it is', async () => {
    const world = openWorld()
    const first = await ready(world)
    const { profile } = someAccount()
    world.change({ profile: { ...profile, currency: 'EUR', email: 'other@example.org' } })
    const { obstacle } = await world.reconcile()
    assert.equal(obstacle?.reason, 'ImmutableFieldChanged')
    assert.match(
      obstacle.message,
      /^spec\.currency: cannot change .*; change the field back, or create another/,
    )
    world.change({ profile: { ...profile, email: 'other@example.org' } })
    assert.deepEqual(await ready(world), first)
  })

  it('waits for the Secret of a webhook', async () => {
    const world = openWorld()
    const webhook = { url: 'https://example.org/hook', events: [], secret: { name: 'hooks', key: 'a' } }
    world.change({ webhooks: [webhook] })
    const { obstacle } = await world.reconcile()
    assert.equal(obstacle?.reason, 'SecretMissing')
    assert.match(obstacle.message, /^the Secret sales\/hooks does not exist, or its entry a is empty$/)
    world.secrets.set('sales/hooks', {
      a: `${newWebhookSecret(randomBytes)}\n${newWebhookSecret(randomBytes)}\n`,
    })
    await ready(world)
  })

  it('reports how to grant a missing right to Secrets, and waits for it', async () => {
    const forbidden = new SecretForbiddenError('it may not', 'Run this')
    const world = openWorld(undefined, { get: () => Promise.reject(forbidden) })
    const { obstacle, afterMs, synced } = await world.reconcile()
    const message = 'it may not. Run this'
    assert.deepEqual(obstacle, {
      step: 'CredentialsReady',
      reason: 'SecretForbidden',
      message,
      stalled: true,
    })
    assert.equal(synced, false)
    assert.ok(afterMs !== undefined && afterMs <= 30_000)
  })

  it('rejects a webhook secret that receivers could not use to verify, without quoting it', async () => {
    const world = openWorld()
    const webhook = { url: 'https://example.org/hook', events: [], secret: { name: 'hooks', key: 'a' } }
    world.change({ webhooks: [webhook] })
    const good = newWebhookSecret(randomBytes)
    const reference = 'spec.webhooks[0].secretRef: the entry a of the Secret hooks: '
    const allowed = 'allowed is "whsec_" and 24 to 64 bytes in base64'
    const table: readonly (readonly [entry: string, found: string])[] = [
      ['hunter2', `line 1 does not begin with "whsec_"; ${allowed}`],
      [`${good}\nwhsec_aHVudGVyMg==`, `line 2 has 7 bytes after "whsec_"; ${allowed}`],
      [`${good}\n${good}\n${good}`, 'has 3 lines; 1 or 2 are allowed'],
    ]
    for (const [entry, found] of table) {
      world.secrets.set('sales/hooks', { a: entry })
      const { obstacle } = await world.reconcile()
      assert.deepEqual(
        [obstacle?.step, obstacle?.reason, obstacle?.stalled],
        ['Synced', 'SecretInvalid', true],
      )
      assert.equal(obstacle?.message, reference + found)
    }
    assert.equal(world.calls(), 0)
    world.secrets.set('sales/hooks', { a: good })
    await ready(world)
  })

  it('is closed, and reports it', async () => {
    const world = openWorld()
    const { apiKey } = await ready(world)
    await world.close()
    await world.close()
    assert.equal(await service.appOf(apiKey), undefined)
    const { obstacle } = await world.reconcile()
    assert.equal(obstacle?.reason, 'MerchantClosed')
  })

  it('waits without a loss while the payments service does not answer', async () => {
    const world = openWorld({
      check: () => Promise.reject(new Error('connect ECONNREFUSED')),
      provision: () => Promise.reject(new Error('connect ECONNREFUSED')),
      close: () => Promise.reject(new Error('connect ECONNREFUSED')),
    })
    const { obstacle, afterMs } = await world.reconcile()
    assert.deepEqual(
      [obstacle?.reason, obstacle?.stalled, afterMs],
      ['PaymentsUnreachable', false, undefined],
    )
    await world.reconcile()
    assert.deepEqual(Object.keys(await world.entries()), ['apiKey.next'])
    await assert.rejects(world.close(), /ECONNREFUSED/)
  })

  it('changes nothing if no payments service runs', async () => {
    const world = openWorld(null)
    const { obstacle } = await world.reconcile()
    assert.equal(obstacle?.reason, 'PaymentsDisabled')
    assert.deepEqual(await world.entries(), {})
  })
})
