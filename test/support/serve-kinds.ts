import assert from 'node:assert/strict'
import { apiGroup, type ResourceKind } from '@tollway/crds/resource-kind.ts'
import { resourceKinds } from '@tollway/crds/resource-kinds.ts'
import { customResourceDefinition } from '../../crds/generation/definition.ts'
import type { KubeApiServer } from './kube-api-server.ts'
import { waitFor } from './wait-for.ts'

const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'

/** Creates the definitions of the kinds. Resolves when the API server serves them, which it does not at once. */
export async function serveKinds(
  api: Pick<KubeApiServer, 'call'>,
  kinds: readonly ResourceKind[] = resourceKinds,
): Promise<void> {
  for (const kind of kinds) {
    const { status, body } = await api.call('POST', definitions, customResourceDefinition(kind))
    assert.equal(status, 201, JSON.stringify(body))
  }
  for (const { version, plural } of kinds) {
    const path = `/apis/${apiGroup}/${version}/${plural}`
    await waitFor(`${plural} to be served`, async () => (await api.call('GET', path)).status === 200)
  }
}
