import { createGrpcClient } from '@tollway/grpc/client/client.ts'
import { healthCheckPath, healthClientCodec, servingStatus } from '@tollway/grpc/server/health.ts'
import { GrpcError, statusName } from '@tollway/grpc/status.ts'

/**
 * Checks health by the grpc.health.v1 protocol.
 *
 * @param target `host:port`
 * @param service the name of a service; empty for the whole server
 */
export async function checkHealth(
  target: string,
  service: string,
  timeoutMs: number,
): Promise<{ readonly serving: true } | { readonly problem: string }> {
  const client = createGrpcClient(target)
  try {
    const { status } = await client.unary(healthCheckPath, healthClientCodec, { service }, { timeoutMs })
    if (status === servingStatus.SERVING) return { serving: true }
    return { problem: 'answered NOT_SERVING' }
  } catch (error) {
    if (!(error instanceof GrpcError)) throw error
    return { problem: `answered ${statusName(error.code)}: ${error.message}` }
  } finally {
    client.close()
  }
}
