import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { type Controller, type Environment, type OperatorApp, openApp } from '../app.ts'
import type { Provisioner } from '../kinds/merchant/provisioner.ts'
import type { StatusCondition } from '../status/conditions.ts'
import { type ProvisioningUnderTest, startProvisioning } from './start-provisioning.ts'

export interface Manifest {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: {
    readonly namespace: string
    readonly name: string
    readonly annotations?: Readonly<Record<string, string>>
  }
  readonly [field: string]: unknown
}

export interface EnvironmentUnderTest {
  /** Opens the environment of another operator on the same resources and state. */
  open(provisioner: Provisioner): Promise<OpenEnvironment>
  apply(manifest: Manifest): Promise<void>
  remove(manifest: Manifest): Promise<void>
  conditions(manifest: Manifest): Promise<readonly StatusCondition[]>
  /** Returns the entries of a Secret that the operator wrote; undefined if there is none. */
  readSecret(namespace: string, name: string): Promise<Readonly<Record<string, string>> | undefined>
  close(): Promise<void>
}

export interface OpenEnvironment {
  readonly environment: Environment<Controller>
  close(): Promise<void>
}

const apiVersion = 'tollway.dev/v1alpha1'
const namespace = 'default'

function limits(requestsPerUnit: number, annotations: Readonly<Record<string, string>> = {}): Manifest {
  const descriptors = [{ key: 'user', rateLimit: { unit: 'minute', requestsPerUnit } }]
  return {
    apiVersion,
    kind: 'RateLimitConfig',
    metadata: { namespace, name: 'limits', annotations },
    spec: { domain: 'shop', descriptors },
  }
}

const route = (name: string, secret: string): Manifest => ({
  apiVersion,
  kind: 'AnimationStreamRoute',
  metadata: { namespace, name },
  spec: { match: { streamIdPrefix: `${name}-` }, tokenSecretRef: { name: secret, key: 'token' } },
})

const tokens: Manifest = {
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { namespace, name: 'tokens' },
  stringData: { token: 'a-token-of-the-contract' },
}

const merchant: Manifest = {
  apiVersion,
  kind: 'Merchant',
  metadata: { namespace, name: 'merchant' },
  spec: {
    currency: 'EUR',
    test: true,
    email: 'shop@example.org',
    website: 'https://shop.example.org',
    descriptor: 'SHOP',
    company: { country: 'DK', number: '12345678' },
    deletionPolicy: 'Delete',
  },
}

/** Registers the tests of what an operator does with resources, in any environment. */
export function environmentContract(
  name: string,
  start: () => Promise<EnvironmentUnderTest>,
  skip: string | false = false,
): void {
  describe(`an operator ${name}`, { skip, timeout: 110_000 }, () => {
    let place: EnvironmentUnderTest
    let service: ProvisioningUnderTest
    let app: OperatorApp<Controller>
    let stop: () => Promise<void> = async () => {}

    before(async () => {
      service = await startProvisioning()
      place = await start()
      await place.apply(limits(10))
      await startOperator()
    })
    after(async () => {
      await stop()
      await place?.close()
      await service?.close()
    })

    async function startOperator(): Promise<void> {
      const opened = await place.open(service.provisioner)
      app = openApp(opened.environment, silentLog)
      stop = async () => {
        await app.stop()
        app.feed.close()
        await opened.close()
      }
      await app.start()
    }

    const rate = () => app.limits.inForce()[0]?.descriptors[0]?.rateLimit?.requestsPerUnit
    const condition = async (manifest: Manifest, type: string) =>
      (await place.conditions(manifest)).find(one => one.type === type)
    const become = (manifest: Manifest, type: string, reason: string) =>
      waitFor(`${type} to become ${reason}`, async () => (await condition(manifest, type))?.reason === reason)

    it('has in force what exists at its start, and each change', async () => {
      assert.equal(rate(), 10)
      await place.apply(limits(20))
      await waitFor('the new limit', () => rate() === 20)
      await become(limits(20), 'Accepted', 'Valid')
    })

    it('keeps the last good version of an invalid resource, in the next operator too', async () => {
      // The definition has no rules below the first level, so the API server stores it.
      const descriptors = [{ key: 'user', descriptors: [{ key: 'plan', rateLimit: { requestsPerUnit: 1 } }] }]
      const invalid = { ...limits(20), spec: { domain: 'shop', descriptors } }
      await place.apply(invalid)
      await become(invalid, 'Accepted', 'Invalid')
      assert.match(
        (await condition(invalid, 'Accepted'))?.message ?? '',
        /spec\.descriptors\[0\]\.descriptors\[0\]/,
      )
      assert.equal(rate(), 20)
      await stop()
      await startOperator()
      assert.equal(rate(), 20)
    })

    it('leaves a paused resource as it is', async () => {
      await place.apply(limits(30, { 'tollway.dev/paused': 'true' }))
      await become(limits(30), 'Paused', 'Annotated')
      assert.equal(rate(), 20)
      await place.apply(limits(30))
      await waitFor('the limit after the pause', () => rate() === 30)
    })

    it('keeps the claim of a deleted resource for its namespace, in the next operator too', async () => {
      // Every cluster has this namespace.
      const metadata = { namespace: 'kube-public', name: 'rival' }
      const rival = { ...limits(99), metadata }
      await place.apply(rival)
      await become(rival, 'Accepted', 'DomainConflict')
      await place.remove(limits(30))
      await become(rival, 'Accepted', 'ClaimKept')
      const { message } = (await condition(rival, 'Accepted')) ?? {}
      await stop()
      await startOperator()
      assert.equal(rate(), undefined)
      assert.equal((await condition(rival, 'Accepted'))?.message, message)
      await place.apply(limits(30))
      await waitFor('the limit of the new resource', () => rate() === 30)
      await become(rival, 'Accepted', 'DomainConflict')
      await stop()
      await startOperator()
      assert.equal(rate(), 30)
      await place.remove(rival)
    })

    it('publishes a route with the token of its Secret, and reports a missing Secret', async () => {
      const [open, closed] = [route('open', 'tokens'), route('closed', 'missing')]
      for (const manifest of [tokens, open, closed]) await place.apply(manifest)
      await become(open, 'Programmed', 'InFeed')
      await become(closed, 'Programmed', 'SecretMissing')
      for (const manifest of [open, closed]) await place.remove(manifest)
      await waitFor('the routes to leave', () => app.routes.inForce().length === 0)
    })

    it('provisions a Merchant, and closes it when its resource is deleted', async () => {
      await place.apply(merchant)
      await become(merchant, 'Ready', 'Provisioned')
      const key = (await place.readSecret(namespace, 'merchant'))?.['apiKey'] ?? ''
      assert.notEqual(await service.appOf(key), undefined)
      await place.remove(merchant)
      await waitFor('its key to open nothing', async () => (await service.appOf(key)) === undefined)
    })

    it('removes a deleted resource from the feed', async () => {
      await place.remove(limits(30))
      await waitFor('the domain to leave', () => app.limits.inForce().length === 0)
    })
  })
}
