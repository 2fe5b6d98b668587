import { useQuery } from '@tanstack/react-query'
import { sessionQuery } from '@/api/queries/session'

/** What the one who looks may do: the server decides, this only spares buttons that it would refuse. */
export function useRights(): { use: boolean; admin: boolean } {
  const role = useQuery(sessionQuery()).data?.role
  return { use: role === 'user' || role === 'admin', admin: role === 'admin' }
}
