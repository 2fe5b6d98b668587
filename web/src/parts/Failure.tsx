import { ApiError } from '@/api/client'

/** What failed, where, and what to do: the server's own words. */
export function Failure({ error, again }: { error: unknown; again?: () => void }) {
  const told = error instanceof ApiError ? error : null
  return (
    <div className="failure" role="alert">
      <p>
        <strong>{told ? told.message : error instanceof Error ? error.message : String(error)}</strong>
      </p>
      {told?.at && <p className="quiet">at {told.at}</p>}
      {told?.errors.map((one) => (
        <p key={`${one.at}${one.message}`}>
          {one.at ? `${one.at}: ` : ''}
          {one.message}
          {one.try ? ` (${one.try})` : ''}
        </p>
      ))}
      {told?.try_ && <p>Try: {told.try_}</p>}
      {told && <p className="quiet mono">{told.code}</p>}
      {again && (
        <button type="button" className="button" onClick={again}>
          Ask again
        </button>
      )}
    </div>
  )
}

export function PageFailure(props: { error: unknown; again?: () => void }) {
  return (
    <>
      <h1 className="unseen">Something failed</h1>
      <Failure {...props} />
    </>
  )
}
