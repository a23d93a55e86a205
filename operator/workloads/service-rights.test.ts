import assert from 'node:assert/strict'
import { test } from 'node:test'
import { validateClusterConfig } from '@tollway/crds/cluster-config.ts'
import { makeRules } from '../environments/kubernetes/api/permissions.ts'
import { workloadObjects } from '../environments/kubernetes/infrastructure/objects/workload-objects.ts'
import { clusterWorkloads, makePodShape } from './registry.ts'

const secret = { name: 'one' }

test('the operator has the right to write each Service of its workloads', () => {
  const judged = validateClusterConfig({
    rateLimit: { backend: { urlSecret: secret } },
    broker: {
      enabled: true,
      streamLog: { urlSecret: secret },
      admin: { enabled: true, tokenSecret: secret },
    },
    payments: { enabled: true, database: { urlSecret: secret } },
  })
  assert.ok('value' in judged, JSON.stringify(judged))
  const config = judged.value
  const owner = { apiVersion: 'v1', kind: 'ConfigMap', name: 'tollway-operator', uid: 'uid' }
  const installation = { name: config.name, namespace: 'tollway-system', owner, revision: '' }
  const names = clusterWorkloads(config, installation.namespace).flatMap(({ workload }) =>
    workloadObjects(workload, makePodShape(config, workload.service), installation)
      .filter(({ kind }) => kind === 'Service')
      .map(({ metadata }) => metadata.name),
  )
  const allowed = makeRules('own', { installation: config.name })
    .filter(({ resources }) => resources?.includes('services'))
    .flatMap(({ resourceNames = [] }) => resourceNames)
  assert.deepEqual(
    names.filter(name => !allowed.includes(name)),
    [],
  )
  assert.ok(names.includes('tollway-broker-admin'))
})
