import { animationStreamRouteKind } from './animation-stream-route.ts'
import { merchantKind } from './merchant.ts'
import { rateLimitConfigKind } from './rate-limit-config.ts'
import type { ResourceKind } from './resource-kind.ts'

export const resourceKinds: readonly ResourceKind[] = [
  rateLimitConfigKind,
  animationStreamRouteKind,
  merchantKind,
]
