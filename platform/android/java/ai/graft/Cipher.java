package ai.graft;

import androidx.annotation.NonNull;
import java.security.GeneralSecurityException;

/**
 * Authenticated encryption (AEAD) of a checkpoint folder, under a key that stays with the app; {@link AesGcm} is one.
 * Called from graft's own threads, several at once. A GeneralSecurityException becomes the cause of the GraftException
 * of the call that fails for it.
 */
public interface Cipher {
  /** Bytes by which sealing lengthens: nonce and tag; 1 to 64. */
  int overhead();

  /** The sealed bytes, plain.length + overhead() of them. Draws a new nonce in every call and puts it into them. */
  @NonNull
  byte[] seal(@NonNull byte[] associated, @NonNull byte[] plain) throws GeneralSecurityException;

  /** The plain bytes; throws where they were not sealed under this key with these associated bytes. */
  @NonNull
  byte[] open(@NonNull byte[] associated, @NonNull byte[] sealed) throws GeneralSecurityException;
}
