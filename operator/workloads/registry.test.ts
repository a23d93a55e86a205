import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { validateClusterConfig } from '@tollway/crds/cluster-config.ts'
import { CORE_SCHEMA, load } from 'js-yaml'
import { goldenTests } from '../../test/support/golden.ts'
import { clusterWorkloads, validateServiceSettings } from './registry.ts'

function configOf(written: unknown) {
  const judged = validateClusterConfig(written)
  if ('problems' in judged) throw new Error(JSON.stringify(judged.problems))
  return judged.value
}

/** Each case: a configuration, and the workloads that run with it. */
goldenTests(join(import.meta.dirname, 'testdata/workloads'), text =>
  clusterWorkloads(configOf(load(text, { schema: CORE_SCHEMA })), 'tollway-system')
    .filter(({ enabled }) => enabled)
    .map(({ workload }) => workload),
)

test('settings that are wrong, or reserved, are reported with their field', () => {
  const config = configOf({
    rateLimit: {
      backend: { type: 'memory' },
      replicas: 1,
      env: {
        GRPC_PORT: '1',
        NEAR_LIMIT_RATIO: '7',
        USE_STATSD: 'true',
        USE_AGENTSTATS: 'false',
        DISABLE_STATS: '1',
      },
      pods: {
        extraEnv: [
          { name: 'USE_AGENTSTATS', value: 'true' },
          { name: 'USE_PUSHSTATS', valueFrom: { configMapKeyRef: { name: 'a', key: 'a' } } },
          { name: 'REGION', value: 'true' },
        ],
      },
    },
    broker: { env: { REDIS_URL: 'a', MAX_PULLS: 'many', DEBUG_HOST: '::', OTEL_SERVICE_NAME: 'a' } },
  })
  const patterns = [
    /^rateLimit\.env: GRPC_PORT: the operator decides it; set rateLimit\.grpcPort instead$/,
    /^rateLimit\.env: NEAR_LIMIT_RATIO: "7" is not allowed: /,
    /^rateLimit\.env: USE_STATSD: "true" is not allowed: false, since probes use the port of the metrics$/,
    /^rateLimit\.env: DISABLE_STATS: "1" is not allowed: false, since probes use the port of the metrics$/,
    /^rateLimit\.pods\.extraEnv: USE_AGENTSTATS: "true" is not allowed: false, since probes use the port of the metrics$/,
    /^broker\.env: REDIS_URL: the operator decides it; set broker\.streamLog instead$/,
    /^broker\.env: DEBUG_HOST: the operator decides it$/,
    /^broker\.env: MAX_PULLS: "many" is not allowed: /,
  ]
  const problems = validateServiceSettings(config)
  assert.equal(problems.length, patterns.length, problems.join('\n'))
  for (const [index, pattern] of patterns.entries()) assert.match(problems[index] ?? '', pattern)
})
