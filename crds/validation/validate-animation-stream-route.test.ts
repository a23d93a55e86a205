import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { readCases } from '../testing/read-cases.ts'
import { validateAnimationStreamRoute } from './validate-animation-stream-route.ts'

describe('all problems of an AnimationStreamRoute are reported', () => {
  for (const { name, resource, problems } of readCases(
    'animation-stream-routes.yaml',
    'AnimationStreamRoute',
  )) {
    it(name, () => {
      const judged = validateAnimationStreamRoute(resource)
      const found = 'problems' in judged ? judged.problems : []
      assert.deepEqual(
        found.map(({ path, message }) => `${path}: ${message}`),
        problems,
      )
    })
  }
})

it('an empty spec has every default', () => {
  const envelope = { apiVersion: 'tollway.dev/v1alpha1', kind: 'AnimationStreamRoute' }
  const judged = validateAnimationStreamRoute({ ...envelope, metadata: { name: 'a' }, spec: {} })
  assert.deepEqual(judged, {
    value: {
      match: { sourceServiceId: '', streamIdPrefix: '', targetObjectId: '' },
      rules: { order: 'warn', timeCodes: 'warn', counts: 'warn', audio: 'warn', audioFormats: [] },
      lateJoiners: { from: 'now' },
      slowConsumers: 'wait',
      concurrentRequests: 'queue',
      limits: {
        messageBytes: 4_194_304,
        bufferBytes: 4_194_304,
        bufferSeconds: 30,
        idleSeconds: 30,
        totalSeconds: 3600,
        consumers: 1000,
        streams: 1000,
      },
    },
  })
})
