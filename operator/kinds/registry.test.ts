import assert from 'node:assert/strict'
import { test } from 'node:test'
import { unknownKinds } from './registry.ts'

test('a resource of a kind without a controller is a problem', () => {
  const resource = {
    apiVersion: 'tollway.dev/v1alpha1',
    namespace: 'shop',
    name: 'a',
    uid: 'a',
    generation: 1,
    paused: false,
    spec: {},
    origin: 'a.yaml',
  }
  const found = unknownKinds([
    { ...resource, kind: 'RateLimitConfig' },
    { ...resource, kind: 'AnimationStreamRoute' },
    { ...resource, apiVersion: 'v1', kind: 'Secret' },
    { ...resource, kind: 'RateLimitConfg' },
  ])
  assert.deepEqual(found, [
    {
      origin: 'a.yaml',
      message:
        'RateLimitConfg shop/a: there is no kind RateLimitConfg; there are RateLimitConfig, AnimationStreamRoute, Merchant',
    },
  ])
})
