package ai.graft;

import androidx.annotation.NonNull;
import java.security.GeneralSecurityException;
import javax.crypto.AEADBadTagException;
import javax.crypto.Cipher;
import javax.crypto.SecretKey;
import javax.crypto.spec.GCMParameterSpec;

/**
 * AES-GCM by javax.crypto: a nonce of 12 bytes, the sealed bytes, a tag of 16 bytes. The provider draws the nonce, as
 * the Android keystore wants it; so the key may lie in there.
 */
public final class AesGcm implements ai.graft.Cipher {
  private static final String NAME = "AES/GCM/NoPadding";
  private static final int NONCE = 12;
  private static final int TAG = 16;
  private final SecretKey key;

  public AesGcm(@NonNull SecretKey key) {
    this.key = key;
  }

  @Override
  public int overhead() {
    return NONCE + TAG;
  }

  @NonNull
  @Override
  public byte[] seal(@NonNull byte[] associated, @NonNull byte[] plain) throws GeneralSecurityException {
    Cipher cipher = Cipher.getInstance(NAME);
    cipher.init(Cipher.ENCRYPT_MODE, key);
    byte[] nonce = cipher.getIV();
    if (nonce == null || nonce.length != NONCE) {
      throw new GeneralSecurityException("The provider drew no nonce of " + NONCE + " bytes.");
    }
    cipher.updateAAD(associated);
    byte[] out = new byte[NONCE + plain.length + TAG];
    System.arraycopy(nonce, 0, out, 0, NONCE);
    cipher.doFinal(plain, 0, plain.length, out, NONCE);
    return out;
  }

  @NonNull
  @Override
  public byte[] open(@NonNull byte[] associated, @NonNull byte[] sealed) throws GeneralSecurityException {
    if (sealed.length < NONCE + TAG) throw new AEADBadTagException("The sealed bytes are too few.");
    Cipher cipher = Cipher.getInstance(NAME);
    cipher.init(Cipher.DECRYPT_MODE, key, new GCMParameterSpec(TAG * 8, sealed, 0, NONCE));
    cipher.updateAAD(associated);
    return cipher.doFinal(sealed, NONCE, sealed.length - NONCE);
  }
}
